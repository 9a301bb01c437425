"""Fixtures for timelines: alerts arrive, time passes, and a real mailbox receives the mails."""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from email.message import EmailMessage
from typing import Any

import pytest

from models.domain.effects import Author, ChangeSet
from models.domain.enums import AuthorKind, ContactType
from models.load.lane import lock_incident
from models.load.maintenance import load_windows
from models.store.ids import make_uuid
from models.store.store import store
from models.tables.accounts import bump_version
from models.tables.incidents import Incident
from models.tables.notifications import Message
from models.tables.services import Maintenance, MaintenanceService, Service
from models.tables.timers import Timer
from models.write.apply import apply
from runtime.settings import load
from schedules.maintenance import find_span
from tests.support.alerts import accept
from tests.support.mail_server import Mailbox, start_mailbox
from tests.support.world import World
from workers.alerts import process_lane
from workers.delivery import deliver
from workers.periodic import release_maintenance
from workers.timers import fire


def describe_mail(mail: EmailMessage) -> str:
    """Return the subject and, for a resolved incident, how it ended."""
    # A long subject begins in the second line of its header, and Python before 3.13 reads a blank there.
    subject = str(mail["Subject"]).lstrip()
    found = re.match(r"Resolved( after [^.]*)\.", mail.get_content())
    return f"{subject}: resolved{found[1]}" if found else subject


@dataclass
class Timeline:
    """Run a scenario in simulated time: only `after` moves `now`, and due work happens at its time."""

    world: World
    box: Mailbox
    now: datetime
    seen: int = 0

    def alert(self, message: str, level: str = "critical", entity: str = "db1", **more: Any) -> str:
        receipt = accept(
            self.world, self.now, message=message, alert_type=level, entity_id=entity, exactly=True, **more
        )
        self._run_due()
        return receipt.trace_id

    def after(self, **duration: float) -> None:
        """Move the time forward, with a stop at each moment at which work is due."""
        until = self.now + timedelta(**duration)
        while (moment := self._next_due(until)) is not None:
            self.now = max(self.now, moment)
            self._run_due()
        self.now = until
        self._run_due()

    def _next_due(self, until: datetime) -> datetime | None:
        due_timers = Timer.select(Timer.due_at).where(Timer.done_at.is_null(), Timer.due_at <= until)
        messages = Message.select(Message.next_attempt_at).where(
            Message.state == 0, Message.next_attempt_at <= until
        )
        moments = [row for query in (due_timers, messages) for (row,) in query.tuples()]
        return min(moments + self._list_maintenance_ends(until), default=None)

    def _list_maintenance_ends(self, until: datetime) -> list[datetime]:
        """Return the ends, up to `until`, of the windows in force now."""
        services = [service.id for service in Service.select()]
        windows = [window for some in load_windows(services, self.now).values() for window in some]
        spans = [span for window in windows if (span := find_span(window, self.now)) is not None]
        return [ends for _, ends in spans if ends is not None and ends <= until]

    def _run_due(self) -> None:
        self._run_lanes()
        if release_maintenance.release_deferred(self.now):
            self._run_lanes()
        fire.fire_due(self.now)
        deliver.send_due(ContactType.EMAIL, self.now)

    def _run_lanes(self) -> None:
        for service in Service.select():
            process_lane.run(service.id, now=self.now)

    def mails(self) -> list[tuple[str, str]]:
        """Return person and subject of the mails that arrived since the last call."""
        fresh, self.seen = self.box.mails[self.seen :], len(self.box.mails)
        return [(address.partition("@")[0], describe_mail(mail)) for address, mail in fresh]

    def link(self) -> str:
        """Return the path of the link in the newest mail."""
        found = re.search(r"https://\S+?(/i/\S+)", self.box.mails[-1][1].get_content())
        assert found is not None
        return found[1]

    def incident(self) -> Incident:
        return Incident.select().order_by(Incident.id.desc()).get()


@pytest.fixture
def timeline(world: World, now: datetime):
    with start_mailbox() as box:
        deliver.configure(
            load(
                {
                    "TOCSIN_SMTP_HOST": "127.0.0.1",
                    "TOCSIN_SMTP_PORT": str(box.port),
                    "TOCSIN_PUBLIC_URL": "https://tocsin.example.org",
                }
            )
        )
        yield Timeline(world, box, now)
        deliver._runtimes.clear()


@pytest.fixture
def window(world: World, now: datetime):
    """window(start, end, ...): create a maintenance window of Checkout, by default for an hour from now."""

    def create_window(start=now, end=now + timedelta(hours=1), *, name="Deploy", services=(), **columns):
        row = Maintenance.create(
            unique_id=make_uuid(), team=world.team, name=name, start_time=start, end_time=end,
            creation_date=now, **columns,
        )  # fmt: skip
        for service in services or [world.service]:
            MaintenanceService.create(unique_id=make_uuid(), maintenance=row, service=service)
        bump_version(world.account.id)
        return row

    return create_window


ALICE = Author(AuthorKind.USER, "Alice")


@pytest.fixture
def apply_action(timeline: Timeline) -> Callable[..., None]:
    """apply_action(incidents.assign, person): apply an action of Alice to the newest incident, now.

    `policies` are the rows of the policies that the action needs.
    """

    def apply_to_newest(
        how: Callable[..., Any], *more: Any, policies: Collection[int] = (), **options: Any
    ) -> None:
        with store().write_transaction():
            context = lock_incident(timeline.incident().id, ALICE, timeline.now, policies)
            apply(ChangeSet(effects=list(how(context, *more, **options))))

    return apply_to_newest
