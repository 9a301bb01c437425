"""What workers would do next with the stored rows: unsent messages, timers, and alerts to process."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

import peewee

from models.domain.channels import DELIVERY_CHANNELS
from models.domain.enums import IncidentStatus, MessageStatus
from models.reports.backlog import measure_backlog
from models.store.prepared import in_list
from models.tables.accounts import User, get_display_name
from models.tables.incidents import Incident
from models.tables.notifications import Message, Notification
from models.tables.services import Service
from models.tables.stakeholders import StakeholderMail
from models.tables.timers import Timer

# Rows of each kind that are read; the others are counted.
MAX_ROWS = 1_000


@dataclass(frozen=True, slots=True)
class UnsentMessage:
    """A message that is sent at `due_at`, or at once if that is over. `incidents` are the incidents in it."""

    channel: str
    recipient: str
    incidents: tuple[str, ...]
    due_at: datetime


@dataclass(frozen=True, slots=True)
class MessagesOfPerson:
    """How many unsent messages a person gets, in these channels. A stakeholder counts as a person."""

    recipient: str
    channels: dict[str, int]

    @property
    def count(self) -> int:
        return sum(self.channels.values())


@dataclass(frozen=True, slots=True)
class NextTimer:
    """A timer that fires at `due_at`, or at once if that is over. It may notify people."""

    kind: str
    incident: str
    due_at: datetime


@dataclass(frozen=True, slots=True)
class DueWork:
    """All of this, with at most MAX_ROWS messages and timers, the earliest first; and the numbers of all.

    `open_incidents` are the triggered and acknowledged incidents, `alerts` the accepted alerts that were not
    processed yet.
    """

    people: list[MessagesOfPerson]
    messages: list[UnsentMessage]
    timers: list[NextTimer]
    message_count: int
    timer_count: int
    open_incidents: int
    alerts: int


def list_due_work(now: datetime) -> DueWork:
    """List what workers would do. Change nothing. Needs a connection."""
    messages = Message.select().where(Message.state == MessageStatus.PENDING)
    timers = (
        Timer.select(Timer, Incident, Service)
        .join(Incident)
        .left_outer_join(Service)
        .where(Timer.done_at.is_null())
    )
    backlog = measure_backlog(now)
    first_messages = list(messages.order_by(Message.next_attempt_at, Message.id).limit(MAX_ROWS))
    return DueWork(
        _count_by_person(messages),
        list(_describe_messages(first_messages)),
        [
            NextTimer(timer.kind, describe_incident(timer.incident), timer.due_at)
            for timer in timers.order_by(Timer.due_at, Timer.id).limit(MAX_ROWS)
        ],
        messages.count(),
        timers.count(),
        Incident.select().where(Incident.status < IncidentStatus.RESOLVED).count(),
        backlog.received + backlog.in_pipeline,
    )


def _count_by_person(messages: peewee.ModelSelect) -> list[MessagesOfPerson]:
    """Return the numbers of all these messages by person, the largest first, at most MAX_ROWS persons."""
    mails = StakeholderMail.select(StakeholderMail.message, peewee.fn.MIN(StakeholderMail.name).alias("name"))
    named = mails.group_by(StakeholderMail.message).alias("named")
    counted = (
        Message.select(Message.user, named.c.name, Message.channel, peewee.fn.COUNT(Message.id))
        .join(named, peewee.JOIN.LEFT_OUTER, on=(named.c.message_id == Message.id))
        .where(Message.id.in_(messages.select(Message.id)))
        .group_by(Message.user, named.c.name, Message.channel)
    )
    rows = list(counted.tuples())
    users = User.select().where(in_list(User.id, {user for user, *_ in rows}))
    names = {user.id: get_display_name(user) for user in users}
    channels: dict[tuple[int, str | None], dict[str, int]] = {}
    for user, stakeholder, channel, count in rows:
        channels.setdefault((user, stakeholder), {})[DELIVERY_CHANNELS[channel].title] = count
    found = [
        MessagesOfPerson(stakeholder or names[user], counts)
        for (user, stakeholder), counts in channels.items()
    ]
    return sorted(found, key=lambda each: (-each.count, each.recipient))[:MAX_ROWS]


def describe_incident(incident: Incident) -> str:
    service = f" ({incident.service.name})" if incident.service is not None else ""
    return f"#{incident.incident_number} {incident.title}{service}"


def _describe_messages(messages: list[Message]) -> Iterator[UnsentMessage]:
    rows = [message.id for message in messages]
    users = User.select().where(in_list(User.id, {message.user_id for message in messages}))
    names = {user.id: get_display_name(user) for user in users}
    stakeholders = StakeholderMail.select().where(in_list(StakeholderMail.message, rows))
    names_of_stakeholders = {mail.message_id: mail.name for mail in stakeholders}
    incidents: dict[int, dict[str, None]] = {}
    for table in (Notification, StakeholderMail):
        query = table.select(table, Incident, Service).join(Incident).left_outer_join(Service)
        for row in query.where(in_list(table.message, rows)).order_by(table.id):
            incidents.setdefault(row.message_id, {})[describe_incident(row.incident)] = None
    for message in messages:
        yield UnsentMessage(
            DELIVERY_CHANNELS[message.channel].title,
            names_of_stakeholders.get(message.id) or names[message.user_id],
            tuple(incidents.get(message.id, ())),
            message.next_attempt_at,
        )
