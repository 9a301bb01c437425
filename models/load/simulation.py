"""Load what a simulation needs besides facts: pending notifications and names.

Call these functions inside one `store().read_transaction()`, except those that load open incidents.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from models.domain.effects import IncidentState, NotificationState
from models.domain.enums import NotificationKind, NotificationStatus
from models.domain.facts import OnCallConfig, OpenIncidentFacts
from models.load import timers
from models.load.lane import load_services
from models.store.prepared import Prepared, bind, in_bound, in_list
from models.tables.accounts import User, name_person
from models.tables.incidents import Incident
from models.tables.notifications import Message, Notification
from models.tables.users import ContactMethod


def load_pending_notifications(incidents: Collection[int]) -> list[NotificationState]:
    """Load the pending notifications of these incidents (row numbers).

    `not_before` is the time of the next attempt of their message.
    """
    query = (
        Notification.select(Notification, Message, Incident.unique_id)
        .join(Message)
        .switch(Notification)
        .join(Incident)
        .where(in_list(Notification.incident, incidents), Notification.state == NotificationStatus.PENDING)
        .order_by(Notification.id)
    )
    return [
        NotificationState(
            key=row.key,
            incident=row.incident.unique_id,
            user=row.user_id,
            contact=row.contact_id,
            channel=row.message.channel,
            rule=row.rule_id,
            kind=NotificationKind(row.kind),
            reason=row.reason,
            not_before=row.message.next_attempt_at,
            group_key=row.message.message_id,
        )
        for row in query
    ]


# At most this many pending notifications are loaded, the earliest ones: of one incident, and of many.
MAX_PENDING = 100
MAX_PENDING_OF_MANY = 1_000


def _prepare_due_later(most: int) -> Prepared:
    return Prepared(
        lambda: (
            Notification.select(
                Notification.incident, Notification.key, Notification.user, Notification.contact,
                Message.channel, Notification.rule, Notification.kind, Notification.reason,
                Message.next_attempt_at, Message.message_id, User.first_name, User.last_name, User.email,
            )
            .join(Message)
            .switch(Notification)
            .join(User)
            .where(
                in_bound(Notification.incident, "incidents"),
                Notification.state == NotificationStatus.PENDING,
                Message.next_attempt_at > bind("now"),
            )
            .order_by(Message.next_attempt_at, Notification.id)
            .limit(most)
        )
    )  # fmt: skip


_DUE_LATER = _prepare_due_later(MAX_PENDING)
_DUE_LATER_OF_MANY = _prepare_due_later(MAX_PENDING_OF_MANY)


def load_open_incident(incident: IncidentState, config: OnCallConfig, now: datetime) -> OpenIncidentFacts:
    """Load what decides whom a stored incident notifies next. Needs a connection, but no transaction."""
    (found,) = _load_open([incident], {incident.team: config}, now, _DUE_LATER)
    return found


def load_many_open(
    incidents: Sequence[IncidentState], configs: Mapping[int, OnCallConfig], now: datetime
) -> list[OpenIncidentFacts]:
    """Load the same for many incidents in a constant number of statements. `configs` are by team."""
    return _load_open(incidents, configs, now, _DUE_LATER_OF_MANY) if incidents else []


def _load_open(
    incidents: Sequence[IncidentState],
    configs: Mapping[int, OnCallConfig],
    now: datetime,
    due_later: Prepared,
) -> list[OpenIncidentFacts]:
    unique_ids = {incident.row or 0: incident.unique_id for incident in incidents}
    pending, names = defaultdict(list), {}
    for row, key, user, contact, channel, rule, kind, reason, at, message, *name in due_later.rows(
        incidents=list(unique_ids), now=now
    ):
        kind_of = NotificationKind(kind)
        state = NotificationState(
            key, unique_ids[row], user, contact, channel, rule, kind_of, reason, at, message
        )
        pending[row].append(state)
        names[user] = name_person(*name)
    services = load_services(incidents)
    keys = defaultdict(list)
    for each in timers.list_pending_keys(unique_ids):
        keys[each[0]].append(each)
    with_sla = {row: unique_ids[row] for row in (each.row or 0 for each in incidents if each.sla)}
    fired = timers.find_all_fired(with_sla)
    return [
        OpenIncidentFacts(
            incident,
            services.get(incident.service or 0),
            configs[incident.team],
            tuple(pending[incident.row or 0]),
            tuple(names.items()),
            tuple(keys[incident.unique_id]),
            frozenset(each for each in fired if each[0] == incident.unique_id),
        )
        for incident in incidents
    ]


def load_users(rows: Collection[int]) -> dict[int, User]:
    """Load users by row number."""
    return {user.id: user for user in User.select().where(in_list(User.id, rows))}


def load_contact_names(rows: Collection[int]) -> dict[int, str]:
    """Load the names of contacts by row number, without their addresses."""
    query = ContactMethod.select(ContactMethod.id, ContactMethod.name)
    return dict(query.where(in_list(ContactMethod.id, rows)).tuples())
