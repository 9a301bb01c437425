"""A night told as a timeline: alerts come in, time passes, mails arrive in a real mailbox."""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest

from models.accounts import raise_version
from models.apply import apply
from models.base import store
from models.effects import Actor, Outcome
from models.enums import ActorKind, ContactType
from models.ids import new_uuid
from models.incidents import Incident
from models.loading import lock_incident
from models.maintenance import Maintenance, MaintenanceService
from models.notices import Message
from models.services import Service
from models.timers import Timer
from models.windows import windows_of
from schedules.windows import holding
from tests.alerts import accept
from tests.mailbox import Mailbox, mailbox
from tests.people import World
from tocsin.settings import load
from workers import deliver, maintenance, road, timers


@dataclass
class Night:
    """The moment of `now` moves only by `after`; everything that is due by then happens at its time."""

    world: World
    box: Mailbox
    now: datetime
    seen: int = 0

    def alert(self, message: str, level: str = "critical", entity: str = "db1", **more: Any) -> str:
        receipt = accept(
            self.world, self.now, message=message, alert_type=level, entity_id=entity, exactly=True, **more
        )
        self._settle()
        return receipt.trace_id

    def after(self, **duration: float) -> None:
        """Let time pass, stopping at each moment at which something is due."""
        until = self.now + timedelta(**duration)
        while (moment := self._next_due(until)) is not None:
            self.now = max(self.now, moment)
            self._settle()
        self.now = until
        self._settle()

    def _next_due(self, until: datetime) -> datetime | None:
        timers_due = Timer.select(Timer.due_at).where(Timer.done_at.is_null(), Timer.due_at <= until)
        messages = Message.select(Message.next_at).where(Message.state == 0, Message.next_at <= until)
        moments = [row for query in (timers_due, messages) for (row,) in query.tuples()]
        return min(moments + self._ends_of_maintenance(until), default=None)

    def _ends_of_maintenance(self, until: datetime) -> list[datetime]:
        """Of the windows that hold now, by then."""
        services = [service.id for service in Service.select()]
        windows = [window for some in windows_of(services, self.now).values() for window in some]
        spans = [span for window in windows if (span := holding(window, self.now)) is not None]
        return [ends for _, ends in spans if ends is not None and ends <= until]

    def _settle(self) -> None:
        self._work()
        if maintenance.release(self.now):
            self._work()
        timers.run_due(self.now)
        deliver.drain(ContactType.EMAIL, self.now)

    def _work(self) -> None:
        for service in Service.select():
            road.run(service.id, now=self.now)

    def mails(self) -> list[tuple[str, str]]:
        """What arrived since this was last asked: the person and the subject."""
        fresh, self.seen = self.box.mails[self.seen :], len(self.box.mails)
        return [(address.partition("@")[0], str(mail["Subject"])) for address, mail in fresh]

    def link(self) -> str:
        """The path of the link in the newest mail."""
        found = re.search(r"https://\S+?(/i/\S+)", self.box.mails[-1][1].get_content())
        assert found is not None
        return found[1]

    def incident(self) -> Incident:
        return Incident.select().order_by(Incident.id.desc()).get()


@pytest.fixture
def night(world: World, now: datetime):
    with mailbox() as box:
        deliver.configure(
            load(
                {
                    "TOCSIN_SMTP_HOST": "127.0.0.1",
                    "TOCSIN_SMTP_PORT": str(box.port),
                    "TOCSIN_PUBLIC_URL": "https://tocsin.example.org",
                }
            )
        )
        yield Night(world, box, now)
        deliver._posts.clear()


@pytest.fixture
def window(world: World, now: datetime):
    """window(start, end, ...): a maintenance of Checkout, for an hour from now unless that is given."""

    def made(start=now, end=now + timedelta(hours=1), *, name="Deploy", services=(), **columns):
        row = Maintenance.create(
            unique_id=new_uuid(), team=world.team, name=name, start_time=start, end_time=end,
            creation_date=now, **columns,
        )  # fmt: skip
        for service in services or [world.service]:
            MaintenanceService.create(unique_id=new_uuid(), maintenance=row, service=service)
        raise_version(world.account.id)
        return row

    return made


ALICE = Actor(ActorKind.USER, "Alice")


@pytest.fixture
def moved(night: Night) -> Callable[..., None]:
    """moved(moves.move, R, reason="because"): Alice moves the newest incident, at this moment of the night.
    `policies` are rows of those that it may get."""

    def move(how: Callable[..., Any], *more: Any, policies: Collection[int] = (), **options: Any) -> None:
        with store().writing():
            found = lock_incident(night.incident().id, policies)
            around = (found.service, found.directory, ALICE, night.now)
            apply(Outcome(effects=list(how(found.incident, *more, *around, **options))))

    return move
