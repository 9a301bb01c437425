"""Write incidents in the middle of their escalation runs, and verify their steps and mails after faults."""

import threading
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from itertools import cycle
from time import monotonic

import peewee

from bench.data import escalations
from bench.servers.instance import Instance
from bench.servers.sink import Sink
from models.domain.enums import IncidentStatus, NotificationStatus
from models.store.store import connection, store
from models.tables.incidents import Incident, IncidentLog
from models.tables.notifications import Message, Notification
from models.tables.timers import Timer
from tests.support.faults.fan_out import Interface
from tests.support.faults.ledger import NUMBER
from tests.support.polling import wait_until

TEAMS = 5
IN_TIME = timedelta(seconds=2)
# The time after the last step in which all pages must be sent.
MAIL_TIMEOUT_S = 10.0


def write_escalations(instance: Instance, moments: Sequence[datetime]) -> None:
    """Write incidents whose next steps are due at these times. They must be the first of an instance."""
    account = instance.credentials()["account_id"]
    escalations.write_incidents(account, len(moments), TEAMS, moments.__getitem__)


def now() -> datetime:
    with connection():
        return store().now()


def answered(instance: Instance, numbers: Iterable[int]) -> None:
    """Acknowledge or resolve these incidents, in turn, through the interface."""
    call = Interface(instance)
    statuses = cycle((IncidentStatus.ACKNOWLEDGED, IncidentStatus.RESOLVED))
    for number, to in zip(numbers, statuses, strict=False):
        call("PATCH", f"/api/incidents/{number}/", {"status": int(to)})


def pause(seconds: float) -> None:
    threading.Event().wait(seconds)


def await_steps(due_until: datetime, seconds: float = 60) -> None:
    """Wait until all steps due before this time are taken."""
    wait_until(lambda: not has_due_timers(due_until), seconds=seconds, every=0.2)


def has_due_timers(due_until: datetime) -> bool:
    with connection():
        found: bool = Timer.select().where(Timer.done_at.is_null(), Timer.due_at <= due_until).exists()
        return found


def count_steps() -> int:
    """Return the number of steps that were taken."""
    with connection():
        return int(IncidentLog.select().where(IncidentLog.what == "escalated").count())


def find_wrong_steps(
    incidents: int, steps: int = 1, times: Collection[int] = (1,), answered: int = 0
) -> list[str]:
    """Return the faults of the written incidents.

    For triggered incidents: steps that were not taken exactly once, and numbers of notifications that are not
    in `times`. For acknowledged or resolved incidents: all later steps and notifications."""
    with connection():
        triggered = (Incident.incident_number <= incidents) & (Incident.status == IncidentStatus.TRIGGERED)
        expected = {row for (row,) in Incident.select(Incident.id).where(triggered).tuples()}
        all_of_them = Incident.incident_number <= incidents
        logs = IncidentLog.select(IncidentLog.incident, IncidentLog.reason).join(Incident)
        steps_taken = Counter(logs.where(all_of_them, IncidentLog.what == "escalated").tuples())
        notifications = Notification.select(
            Notification.incident, Notification.user, Notification.contact
        ).join(Incident)
        notification_counts = Counter(notifications.where(all_of_them).tuples())
    by_incident = Counter(incident for incident, _ in steps_taken)
    notified = {incident for incident, _, _ in notification_counts}
    return [
        *(f"{len(expected)} are triggered" for _ in [0] if len(expected) != incidents - answered),
        *(f"step taken {count} times: {step}" for step, count in steps_taken.items() if count != 1),
        *(f"{by_incident[row]} steps of {row}" for row in expected if by_incident[row] != steps),
        *(f"step of {row}" for row in by_incident.keys() - expected),
        *(
            f"notified {count} times: {whom}"
            for whom, count in notification_counts.items()
            if count not in times
        ),
        *(f"untold: {row}" for row in expected - notified),
        *(f"notified of {row}" for row in notified - expected),
    ]


def find_unordered() -> list[int]:
    """Return incidents whose steps were not taken in order."""
    with connection():
        logs = IncidentLog.select(IncidentLog.incident, IncidentLog.reason).order_by(IncidentLog.id)
        by_incident: dict[int, list[str]] = {}
        for incident, reason in logs.where(IncidentLog.what == "escalated").tuples():
            by_incident.setdefault(incident, []).append(str(reason))
    return [incident for incident, reasons in by_incident.items() if reasons != sorted(reasons)]


def find_wrong_mails(sink: Sink) -> list[str]:
    """Return notifications that are not in exactly one mail, and mails with cancelled notifications."""
    arrived = {name: len(moments) for name, moments in sink.arrivals().items()}
    listed = {mail.message_id: set(map(int, NUMBER.findall(mail.text))) for mail in tuple(sink.mails)}
    with connection():
        query = Notification.select(Notification.state, Incident.incident_number, Message.message_id)
        notifications = list(query.join(Incident).switch(Notification).join(Message).tuples())
        over = Incident.select(Incident.incident_number).where(Incident.status != IncidentStatus.TRIGGERED)
        silent = {number for (number,) in over.tuples()}
    return [
        *(f"mail {name} came {count} times" for name, count in arrived.items() if count != 1),
        *(
            f"notification of #{number}: {NotificationStatus(state).name.lower()}"
            for state, number, name in notifications
            if state != NotificationStatus.SENT or number not in listed.get(name, ())
        ),
        *(f"mail about #{number}" for numbers in listed.values() for number in numbers & silent),
    ]


def await_mails(sink: Sink) -> list[str]:
    """Wait until all mails are right, and return the faults that are left after some seconds."""
    end = monotonic() + MAIL_TIMEOUT_S
    while (found := find_wrong_mails(sink)) and monotonic() < end:
        pause(0.2)
    return found


def summarize() -> str:
    """Summarize the run in a line."""
    with connection():
        done = Timer.select(Timer.due_at, Timer.done_at).where(Timer.done_at.is_null(False))
        late = sorted((done_at - due_at).total_seconds() for due_at, done_at in done.tuples())
    return f"{len(late)} timers, late p50 {late[len(late) // 2]:.2f} s, at most {late[-1]:.2f} s"


def get_last_done_at() -> datetime:
    with connection():
        moment: datetime = Timer.select(peewee.fn.MAX(Timer.done_at)).scalar()
        return Timer.done_at.python_value(moment)
