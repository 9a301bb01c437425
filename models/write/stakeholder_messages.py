"""Write the mails to stakeholders: who gets one, and why others get none (contract section 4.11)."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import peewee

from models.contacts.contact_codes import is_same_address
from models.domain.channels import STAKEHOLDER_CHANNEL
from models.domain.effects import MailStakeholders
from models.domain.enums import AccountRole, MessageKind
from models.domain.identity import hash_message_id
from models.domain.reasons import Reason, make_reason
from models.store import bulk
from models.tables.accounts import User, get_display_name
from models.tables.incidents import Incident
from models.tables.notifications import Message
from models.tables.stakeholders import StakeholderAddress, StakeholderMail
from models.tables.teams import Team, TeamMember
from models.write.rates import lock_rate

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
# Mails to stakeholders of one account, and to one stakeholder: as for messages that people request
# (web/account/message_limits.py).
ACCOUNT_LIMITS = ((100, HOUR), (300, DAY))
STAKEHOLDER_LIMITS = ((5, HOUR), (10, DAY))
# Mails, and stakeholders that get none, that an incident records.
MAX_PER_INCIDENT = 200
# Members of all named teams that are read. The limits of an account allow fewer mails.
MAX_MEMBERS = 1_000


@dataclass(frozen=True, slots=True)
class _Stakeholder:
    """A member, an address of the list, or a name without a recipient; `refusal` says why it gets no mail."""

    key: str
    name: str
    user: int | None = None
    address: int | None = None
    refusal: Reason | None = None


@dataclass(slots=True)
class _Stakeholders:
    """The stakeholders that the effects of a transaction name. Addresses are in lower case."""

    by_username: dict[str, _Stakeholder] = field(default_factory=dict)
    by_email: dict[str, _Stakeholder] = field(default_factory=dict)
    by_team: dict[str, list[_Stakeholder]] = field(default_factory=dict)

    def list_named(self, effect: MailStakeholders) -> Iterator[_Stakeholder]:
        for username in effect.users:
            unknown = _Stakeholder(f"user {username}", username, refusal=make_reason("stakeholder_no_member"))
            yield self.by_username.get(username, unknown)
        for team in effect.teams:
            unknown = _Stakeholder(f"team {team}", team, refusal=make_reason("stakeholder_no_team"))
            yield from self.by_team.get(team, [unknown])
        for email in effect.emails:
            refusal = make_reason("stakeholder_not_allowed")
            unknown = _Stakeholder(f"email {email}", mask_address(email), refusal=refusal)
            yield self.by_email.get(email, unknown)


def mask_address(email: str) -> str:
    """Return an address that is not in the list so that its sender recognizes it: the name is hidden."""
    user, at, domain = email.rpartition("@")
    return f"{user[:1]}...{at}{domain}"[:80]


def write_stakeholder_mails(effects: Collection[MailStakeholders], incident_rows: Mapping[str, int]) -> None:
    """Write the mails that are new, and their outgoing messages. Takes a lock of the account."""
    account = Incident.get_by_id(incident_rows[next(iter(effects)).incident]).account_id
    # Two transactions together keep the limits of the account.
    lock_rate(account, "stakeholder mails")
    stakeholders = _load_stakeholders(account, effects)
    requested = {
        _make_key(effect, stakeholder): (effect, stakeholder)
        for effect in reversed(list(effects))
        for stakeholder in stakeholders.list_named(effect)
    }
    known = StakeholderMail.select(StakeholderMail.key).where(StakeholderMail.key.in_(list(requested)))
    for (key,) in known.tuples():
        del requested[key]
    if not requested:
        return
    authors = _load_authors(account, effects)
    places = _count_places({incident_rows[effect.incident] for effect, _ in requested.values()})
    limits = _Limits(account, min(effect.at for effect, _ in requested.values()))
    records: dict[str, dict[str, object]] = {}
    for key, (effect, stakeholder) in sorted(requested.items(), key=lambda item: (item[1][0].at, item[0])):
        incident = incident_rows[effect.incident]
        places[incident] -= 1
        if places[incident] < 0:
            continue
        last = make_reason("stakeholders_too_many", limit=MAX_PER_INCIDENT) if not places[incident] else None
        refusal = last or stakeholder.refusal or limits.find_exceeded(stakeholder, effect.at)
        records[key] = {
            "key": key,
            "account": account,
            "incident": incident,
            "user": stakeholder.user,
            "address": stakeholder.address,
            "name": stakeholder.name,
            "subject": effect.subject,
            "body": effect.body,
            "author": authors.get(effect.created_by, ""),
            "time_zone": effect.time_zone,
            "created_at": effect.at,
            "message": None,
            "outcome": refusal,
        }
    _insert_messages(account, [record for record in records.values() if record["outcome"] is None])
    bulk.insert(StakeholderMail, list(records.values()))


def _make_key(effect: MailStakeholders, stakeholder: _Stakeholder) -> str:
    text = f"{effect.subject}\n{effect.body}"
    return hash_message_id(["stakeholder", effect.incident, f"text {text}", f"to {stakeholder.key}"])


def _load_stakeholders(account: int, effects: Collection[MailStakeholders]) -> _Stakeholders:
    usernames = {name for effect in effects for name in effect.users}
    teams = {team for effect in effects for team in effect.teams}
    emails = {email for effect in effects for email in effect.emails}
    is_member = (User.account == account) & User.removed_at.is_null()
    stakeholders = _Stakeholders()
    for row in StakeholderAddress.select().where(
        StakeholderAddress.account == account, StakeholderAddress.email.in_(list(emails))
    ):
        stakeholders.by_email[row.email] = _Stakeholder(f"address:{row.id}", row.name, address=row.id)
    # A member counts as a member, also if the alert has the address.
    named = User.username.in_(list(usernames)) | peewee.fn.LOWER(User.email).in_(list(emails))
    for row in User.select().where(is_member, named):
        stakeholders.by_username[row.username] = stakeholders.by_email[row.email.lower()] = _build_member(row)
    members = TeamMember.select(TeamMember, Team.unique_id, User).join(Team).switch(TeamMember).join(User)
    found = members.where(is_member, Team.account == account, Team.unique_id.in_(list(teams)))
    for row in found.order_by(TeamMember.id).limit(MAX_MEMBERS):
        stakeholders.by_team.setdefault(row.team.unique_id, []).append(_build_member(row.user))
    return stakeholders


def _build_member(user: User) -> _Stakeholder:
    is_verified = is_same_address(user.verified_email, user.email)
    refusal = None if is_verified else make_reason("stakeholder_not_verified")
    return _Stakeholder(f"member:{user.id}", get_display_name(user), user=user.id, refusal=refusal)


def _load_authors(account: int, effects: Iterable[MailStakeholders]) -> dict[str, str]:
    """Return the names of the members that wrote the texts, by username."""
    names = {effect.created_by for effect in effects} - {""}
    members = User.select().where(User.account == account, User.removed_at.is_null())
    return {row.username: get_display_name(row) for row in members.where(User.username.in_(list(names)))}


def _count_places(incidents: Collection[int]) -> dict[int, int]:
    """Return how many more mails each incident may record."""
    counts = (
        StakeholderMail.select(StakeholderMail.incident, peewee.fn.COUNT(StakeholderMail.id))
        .where(StakeholderMail.incident.in_(list(incidents)))
        .group_by(StakeholderMail.incident)
    )
    used = dict(counts.tuples())
    return {incident: MAX_PER_INCIDENT - used.get(incident, 0) for incident in incidents}


class _Limits:
    """The mails of an account in the last day, and those that are about to be written."""

    def __init__(self, account: int, first_at: datetime) -> None:
        rows = StakeholderMail.select(
            StakeholderMail.created_at, StakeholderMail.user, StakeholderMail.address
        ).where(
            StakeholderMail.account == account,
            StakeholderMail.message.is_null(False),
            StakeholderMail.created_at > first_at - DAY,
        )
        self._sent: list[tuple[datetime, tuple[int | None, int | None]]] = [
            (at, (user, address)) for at, user, address in rows.tuples()
        ]

    def find_exceeded(self, stakeholder: _Stakeholder, at: datetime) -> Reason | None:
        """Return why this mail is one too many; None if it is not, and then count it."""
        to = (stakeholder.user, stakeholder.address)
        own = _find_exceeded(STAKEHOLDER_LIMITS, [when for when, whom in self._sent if whom == to], at)
        if own is not None:
            return make_reason("stakeholder_limit", limit=own[0], period=int(own[1].total_seconds()))
        of_all = _find_exceeded(ACCOUNT_LIMITS, [when for when, _ in self._sent], at)
        if of_all is not None:
            limit, period = of_all
            return make_reason(
                "stakeholder_limit_of_account", limit=limit, period=int(period.total_seconds())
            )
        self._sent.append((at, to))
        return None


def _find_exceeded(
    limits: Iterable[tuple[int, timedelta]], times: Collection[datetime], at: datetime
) -> tuple[int, timedelta] | None:
    """Return the first limit that one more mail at this time exceeds."""
    for limit, period in limits:
        if sum(when > at - period for when in times) >= limit:
            return limit, period
    return None


def _insert_messages(account: int, records: list[dict[str, object]]) -> None:
    """Insert the outgoing message of each mail, and set its row in the record of the mail."""
    if not records:
        return
    # The table of messages requires a user. For an address of the list, it is the owner, who allowed it.
    owner = User.select(User.id).where(User.account == account, User.role == AccountRole.OWNER).scalar()
    messages = [
        {
            "message_id": record["key"],
            "account": account,
            "user": record["user"] or owner,
            "contact": None,
            "channel": STAKEHOLDER_CHANNEL,
            "kind": MessageKind.STAKEHOLDER.value,
            "requested_by": "an alert",
            "created_at": record["created_at"],
            "next_attempt_at": record["created_at"],
        }
        for record in records
    ]
    bulk.insert(Message, messages, conflict=["message_id"])
    query = Message.select(Message.message_id, Message.id)
    rows = dict(query.where(Message.message_id.in_([record["key"] for record in records])).tuples())
    for record in records:
        record["message"] = rows[record["key"]]
