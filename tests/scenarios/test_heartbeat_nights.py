"""Nights of a thing that pings each minute, and may be late by half of one: it falls silent, or we do."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest

from models import metrics
from models.accounts import Heartbeat, raise_version
from models.applications import HEARTBEAT
from models.base import connection, db
from models.enums import AlertType, IncidentStatus, ServiceStatus, WorkState
from models.events import Event, Receipt
from models.incidents import Incident
from models.metrics import Life
from models.services import Integration, Service
from tests.alerts import accept
from tests.scenarios.conftest import Night
from workers import heartbeats, presence, road

EVERY, GRACE, LOOK = timedelta(seconds=60), timedelta(seconds=30), timedelta(seconds=5)
IN_TIME, LATE = timedelta(seconds=60), timedelta(seconds=89)


@dataclass
class Vigil:
    """The moment of the night moves by looks; each finds the web process living, unless it is down."""

    night: Night
    web_since: datetime | None
    web: int = 1
    works: bool = True

    @property
    def now(self) -> datetime:
        return self.night.now

    def ping(self, body: bytes = b"") -> None:
        accept(self.night.world, self.now, source="heartbeat", body=body, exactly=True)
        self.settle()

    def after(self, span: timedelta) -> None:
        until = self.now + span
        while self.now < until:
            self.night.now = min(self.now + LOOK, until)
            self.look()

    def look(self) -> int:
        """As a clock or a worker does."""
        Heartbeat.delete().where(Heartbeat.process == f"web:{self.web}").execute()
        if self.web_since is not None:
            self.web_beats()
        raised = heartbeats.raise_missing(self.now)
        self.settle()
        return raised

    def web_beats(self) -> None:
        metrics.beat(Life("web", f"web:{self.web}", self.web_since or self.now), self.now)

    def web_is_killed(self) -> None:
        """Its last sign of life stays behind."""
        self.web += 1
        self.web_since = None

    def settle(self) -> None:
        if self.works:
            self.night._settle()

    def jump(self, until: datetime) -> None:
        """All was there and looked, all the time."""
        self.night.now = until - timedelta(seconds=1)
        Heartbeat.update(at=self.now).where(Heartbeat.process.contains(":")).execute()
        noted = Heartbeat.get(Heartbeat.process == presence.WATCHED)
        detail = {**noted.detail, "until": self.now.isoformat()}
        Heartbeat.update(at=self.now, detail=detail).where(Heartbeat.id == noted.id).execute()
        self.after(timedelta(seconds=1))

    def web_is_back(self) -> None:
        self.web_since = self.now

    def stops(self, span: timedelta) -> None:
        """Everything ends, and is back after so long."""
        self.night.now += span
        self.web_since = self.now
        self.look()

    def expected(self) -> timedelta | None:
        at = Integration.get().expected_at
        return at and at - self.now

    def incidents(self) -> list[tuple[str, IncidentStatus]]:
        return [(row.title, IncidentStatus(row.status)) for row in Incident.select().order_by(Incident.id)]


@pytest.fixture
def vigil(night):
    set_up(night, heartbeat_every=60, heartbeat_grace=30, expected_at=night.now + EVERY + GRACE)
    vigil = Vigil(night, night.now - timedelta(hours=1))
    vigil.look()
    vigil.ping()
    return vigil


def set_up(night, **changes):
    Integration.update(name="Backup", application=HEARTBEAT, **changes).execute()
    raise_version(night.world.account.id)


MISSING = "No ping from Backup since 2026-03-04 12:00:00 UTC"


def newest_alert():
    return Event.select().order_by(Event.id.desc()).get().message


def test_a_thing_that_falls_silent_is_told_of_once_and_its_next_ping_ends_it(vigil):
    vigil.after(timedelta(seconds=85))
    assert vigil.incidents() == []
    vigil.after(timedelta(seconds=5))
    assert vigil.incidents() == [(MISSING, IncidentStatus.TRIGGERED)]
    vigil.after(timedelta(minutes=10))
    assert vigil.incidents() == [(MISSING, IncidentStatus.TRIGGERED)]
    assert [subject.strip() for _, subject in vigil.night.mails()] == [f"[Checkout] #1 {MISSING} (critical)"]

    vigil.ping()
    assert vigil.incidents() == [(MISSING, IncidentStatus.RESOLVED)]
    assert vigil.expected() == EVERY + GRACE

    vigil.after(EVERY + GRACE)
    assert [status for _, status in vigil.incidents()] == [IncidentStatus.RESOLVED, IncidentStatus.TRIGGERED]


def test_pings_in_time_or_late_by_less_than_the_grace_open_nothing(vigil):
    for pause in (IN_TIME, LATE, IN_TIME, LATE, LATE):
        vigil.after(pause)
        vigil.ping()

    assert vigil.incidents() == []
    assert Event.select().where(Event.alert_type == AlertType.RESOLVED).count() == 6


def test_a_thing_that_says_that_it_failed_is_told_of_at_once_and_goes_on_being_expected(vigil):
    vigil.after(timedelta(seconds=30))
    vigil.ping(b'{"status": "failed", "message": "Disk full"}')
    assert vigil.incidents() == [("Disk full", IncidentStatus.TRIGGERED)]
    assert vigil.expected() == EVERY + GRACE

    vigil.after(EVERY + GRACE)
    assert vigil.incidents() == [("Disk full", IncidentStatus.TRIGGERED)]
    assert newest_alert() == "No ping from Backup since 2026-03-04 12:00:30 UTC"
    vigil.ping(b"status=ok")
    assert vigil.incidents() == [("Disk full", IncidentStatus.RESOLVED)]


def test_a_ping_by_another_tool_is_an_alert_like_any_other(vigil):
    vigil.after(timedelta(seconds=30))
    vigil.night.alert("hello", "info")

    assert vigil.expected() == timedelta(seconds=60)


def test_what_takes_no_pings_misses_none(vigil):
    set_up(vigil.night, is_enabled=False)
    vigil.after(timedelta(minutes=10))

    assert (vigil.incidents(), Receipt.select().count()) == ([], 1)


def test_of_a_disabled_service_nothing_is_told_until_it_is_no_more(vigil):
    Service.update(status=ServiceStatus.DISABLED).execute()
    vigil.after(timedelta(minutes=10))
    assert (vigil.incidents(), Receipt.select().count()) == ([], 1)

    Service.update(status=ServiceStatus.ACTIVE).execute()
    vigil.after(LOOK)
    assert vigil.incidents() == [(MISSING, IncidentStatus.TRIGGERED)]


def test_under_maintenance_it_is_kept_and_opens_nothing(vigil):
    Service.update(under_maintenance=True).execute()
    vigil.after(timedelta(minutes=10))

    assert vigil.incidents() == []
    assert newest_alert() == MISSING


def test_silence_that_outlasts_maintenance_is_told_once_when_that_is_over(vigil):
    Service.update(under_maintenance=True).execute()
    vigil.after(timedelta(minutes=10))
    Service.update(under_maintenance=False).execute()
    vigil.after(timedelta(minutes=10))

    assert vigil.incidents() == [(MISSING, IncidentStatus.TRIGGERED)]
    assert len(vigil.night.mails()) == 1


def test_silence_that_goes_on_is_said_once_in_each_time_that_a_ping_may_take(vigil):
    vigil.after(timedelta(minutes=15))

    said = Event.select().where(Event.alert_type == AlertType.CRITICAL)
    assert [event.message for event in said] == [MISSING] * 10
    assert (vigil.incidents(), vigil.expected()) == ([(MISSING, IncidentStatus.TRIGGERED)], EVERY + GRACE)
    assert len(vigil.night.mails()) == 1


def test_an_incident_that_ends_before_the_silence_does_is_followed_by_another(vigil):
    Service.update(auto_resolve_timeout=300).execute()
    raise_version(vigil.night.world.account.id)
    vigil.after(EVERY + GRACE + timedelta(seconds=300))
    assert vigil.incidents() == [(MISSING, IncidentStatus.RESOLVED)]

    vigil.after(EVERY + GRACE)
    assert vigil.incidents() == [(MISSING, IncidentStatus.RESOLVED), (MISSING, IncidentStatus.TRIGGERED)]
    vigil.ping()
    vigil.after(IN_TIME)
    assert [status for _, status in vigil.incidents()] == [IncidentStatus.RESOLVED] * 2


def test_what_is_deleted_is_expected_no_more(vigil):
    Integration.delete().execute()
    vigil.after(timedelta(minutes=10))

    assert vigil.incidents() == []


def test_what_expects_nothing_any_more_misses_nothing(vigil):
    set_up(vigil.night, heartbeat_every=0, expected_at=None)
    vigil.ping()
    vigil.after(timedelta(minutes=10))

    assert (vigil.incidents(), vigil.expected()) == ([], None)


def test_a_longer_time_counts_from_the_next_ping(vigil):
    vigil.after(timedelta(seconds=30))
    set_up(vigil.night, heartbeat_every=3600)
    vigil.ping()

    assert vigil.expected() == timedelta(seconds=3630)


# --- Tocsin's own silence ----------------------------------------------------------------------------


def test_after_a_stop_of_tocsin_nobody_is_blamed_who_comes_back_in_time(vigil):
    vigil.after(timedelta(seconds=40))
    vigil.stops(timedelta(minutes=10))
    assert (vigil.incidents(), vigil.expected()) == ([], EVERY + GRACE)

    vigil.after(IN_TIME)
    vigil.ping()
    vigil.after(IN_TIME)
    assert vigil.incidents() == []


def test_after_a_stop_of_tocsin_who_stays_silent_is_told_of(vigil):
    vigil.stops(timedelta(minutes=10))
    vigil.after(EVERY + GRACE)

    assert vigil.incidents() == [(MISSING, IncidentStatus.TRIGGERED)]


def test_after_two_stops_nobody_is_blamed_who_comes_back_in_time(vigil):
    vigil.after(timedelta(seconds=40))
    for _ in range(2):
        vigil.stops(timedelta(minutes=10))
        vigil.after(timedelta(seconds=40))
    vigil.after(LATE - timedelta(seconds=40))
    assert vigil.incidents() == []

    vigil.after(timedelta(seconds=1))
    assert vigil.incidents() == [(MISSING, IncidentStatus.TRIGGERED)]


def test_a_stop_long_before_a_ping_is_due_gives_no_more_time(vigil):
    set_up(vigil.night, heartbeat_every=3600)
    vigil.ping()
    vigil.stops(timedelta(minutes=10))

    assert vigil.expected() == timedelta(seconds=3630) - timedelta(minutes=10)


def test_while_no_web_process_lives_nobody_is_blamed(vigil):
    began, vigil.web_since = vigil.web_since, None
    vigil.after(timedelta(minutes=10))
    assert vigil.incidents() == []

    vigil.web_since = vigil.now
    vigil.after(LOOK)
    assert vigil.expected() == EVERY + GRACE
    assert began < vigil.web_since


@pytest.mark.parametrize("back_after", [3, 10, 25])
@pytest.mark.parametrize("killed_at", [46, 58, 60])
def test_who_pings_while_a_web_process_is_killed_is_not_blamed(vigil, killed_at, back_after):
    """It gives a sign of life each 15 seconds, and counts as living for a while after the last one."""
    started_at = vigil.now
    for second in range(1, 180):
        vigil.night.now = started_at + timedelta(seconds=second)
        if second == killed_at:
            vigil.web_is_killed()
        if second == killed_at + back_after:
            vigil.web_is_back()
        if vigil.web_since is not None and (second % 15 == 0 or vigil.web_since == vigil.now):
            vigil.web_beats()
        heartbeats.raise_missing(vigil.now)
        vigil.settle()
        if second == 120:
            vigil.ping()

    assert vigil.incidents() == []


def test_while_a_killed_web_process_still_counts_as_living_nobody_is_blamed(vigil):
    vigil.after(timedelta(seconds=50))
    vigil.web_is_killed()
    vigil.after(timedelta(minutes=5))

    assert vigil.incidents() == []


def test_a_second_web_process_excuses_nobody(vigil):
    """Whether the first one lives is known by its next sign of life."""
    vigil.after(timedelta(seconds=80))
    with_it = Life("web", "web:second", vigil.now + timedelta(seconds=2))
    vigil.night.now += timedelta(seconds=10)
    metrics.beat(with_it, vigil.now)
    assert heartbeats.raise_missing(vigil.now) == 0

    vigil.after(LOOK)
    assert vigil.incidents() == [(MISSING, IncidentStatus.TRIGGERED)]


def test_restarts_hide_silence_for_one_time_more_however_many_they_are(vigil):
    """A backup a day, which may be late by six hours, dies; each day, an hour after it, web is restarted."""
    day, hour = timedelta(days=1), timedelta(hours=1)
    set_up(vigil.night, heartbeat_every=86_400, heartbeat_grace=6 * 3600)
    vigil.ping()
    last_ping = vigil.now
    for number in range(1, 4):
        vigil.jump(last_ping + number * day + hour)
        vigil.web_since = vigil.now + timedelta(seconds=2)
        vigil.after(LOOK)
        if number == 2:
            assert vigil.incidents() == []
            assert vigil.expected() == last_ping + 2 * day + 7 * hour + LOOK - vigil.now
            vigil.jump(last_ping + 2 * day + 7 * hour + LOOK)

    assert vigil.incidents() == [(MISSING, IncidentStatus.TRIGGERED)]
    assert vigil.night.incident().creation_date == last_ping + 2 * day + 7 * hour + LOOK


def test_a_clock_that_ends_while_workers_look_hides_nothing(vigil):
    """Whoever looks, says it: no beat of the clock is needed."""
    Heartbeat.delete().where(Heartbeat.process == "clock").execute()
    vigil.after(EVERY + GRACE)

    assert vigil.incidents() == [(MISSING, IncidentStatus.TRIGGERED)]


def test_pings_that_wait_for_a_worker_have_come(vigil):
    vigil.works = False
    for _ in range(3):
        vigil.after(IN_TIME)
        vigil.ping()
    vigil.after(timedelta(seconds=85))
    assert Receipt.select().where(Receipt.state == WorkState.WAITING).count() == 3

    vigil.works = True
    vigil.after(timedelta(seconds=4))
    assert vigil.incidents() == []
    vigil.after(timedelta(seconds=1))
    assert [status for _, status in vigil.incidents()] == [IncidentStatus.TRIGGERED]


def test_what_fell_silent_and_came_back_while_no_worker_was_there_wakes_nobody(vigil):
    vigil.works = False
    vigil.after(timedelta(minutes=5))
    vigil.ping()
    vigil.works = True
    vigil.look()

    assert vigil.incidents() == [(MISSING, IncidentStatus.RESOLVED)]
    assert vigil.night.mails() == []


def test_pings_behind_a_cut_of_the_road_have_come(vigil, monkeypatch):
    monkeypatch.setattr(road, "_road", road.segments(["normalize"]))
    vigil.works = False
    vigil.after(IN_TIME)
    vigil.ping()
    road.run(vigil.night.world.service.id, "normalize", now=vigil.now)
    assert Event.select().where(Event.state == WorkState.WAITING).count() == 1
    vigil.after(IN_TIME)
    assert Receipt.select().where(Receipt.state == WorkState.WAITING).count() == 0

    road.run(vigil.night.world.service.id, "route", now=vigil.now)
    assert vigil.expected() == EVERY + GRACE - IN_TIME


def test_a_ping_that_is_worked_on_late_takes_no_time_away(vigil):
    later = vigil.now + timedelta(hours=1)
    Integration.update(expected_at=later).execute()
    vigil.ping()

    assert Integration.get().expected_at == later


def test_of_two_clocks_and_a_worker_one_says_it(vigil, store):
    vigil.after(EVERY + GRACE - timedelta(seconds=1))
    vigil.night.now += timedelta(seconds=1)
    start = threading.Barrier(3, timeout=20)

    def look():
        with connection():
            start.wait()
            try:
                return heartbeats.raise_missing(vigil.now)
            finally:
                db.close()

    with ThreadPoolExecutor(3) as pool:
        raised = [each.result() for each in [pool.submit(look) for _ in range(3)]]
    vigil.settle()

    assert sorted(raised) == [0, 0, 1]
    assert vigil.incidents() == [(MISSING, IncidentStatus.TRIGGERED)]
