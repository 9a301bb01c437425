"""Nights of a thing that pings each minute, and may be late by half of one: it falls silent, or we do."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest

from models.domain.applications import HEARTBEAT
from models.domain.enums import AlertType, IncidentStatus, ServiceStatus, WorkState
from models.reports import backlog
from models.reports.backlog import ProcessLiveness
from models.store.base import connection, db
from models.tables.accounts import Liveness, bump_version
from models.tables.events import Event, Receipt
from models.tables.incidents import Incident
from models.tables.services import Integration, Service
from tests.scenarios.conftest import Timeline
from tests.support.alerts import accept
from workers.alerts import process_lane
from workers.periodic import missing_heartbeats, outages

EVERY, GRACE, CHECK_EVERY = timedelta(seconds=60), timedelta(seconds=30), timedelta(seconds=5)
IN_TIME, LATE = timedelta(seconds=60), timedelta(seconds=89)


@dataclass
class MonitoredSource:
    """The moment of the night moves by looks; each finds the web process living, unless it is down."""

    timeline: Timeline
    web_since: datetime | None
    web: int = 1
    workers_run: bool = True

    @property
    def now(self) -> datetime:
        return self.timeline.now

    def ping(self, body: bytes = b"") -> None:
        accept(self.timeline.world, self.now, source="heartbeat", body=body, exactly=True)
        self.run_due()

    def after(self, span: timedelta) -> None:
        until = self.now + span
        while self.now < until:
            self.timeline.now = min(self.now + CHECK_EVERY, until)
            self.run_check()

    def run_check(self) -> int:
        """As a clock or a worker does."""
        Liveness.delete().where(Liveness.process == f"web:{self.web}").execute()
        if self.web_since is not None:
            self.web_signals()
        raised = missing_heartbeats.report_missing(self.now)
        self.run_due()
        return raised

    def web_signals(self) -> None:
        backlog.record_liveness(
            ProcessLiveness("web", f"web:{self.web}", self.web_since or self.now), self.now
        )

    def kill_web(self) -> None:
        """Its last sign of life stays behind."""
        self.web += 1
        self.web_since = None

    def run_due(self) -> None:
        if self.workers_run:
            self.timeline._run_due()

    def jump(self, until: datetime) -> None:
        """All was there and looked, all the time."""
        self.timeline.now = until - timedelta(seconds=1)
        Liveness.update(at=self.now).where(Liveness.process.contains(":")).execute()
        noted = Liveness.get(Liveness.process == outages.PROCESS)
        detail = {**noted.detail, "until": self.now.isoformat()}
        Liveness.update(at=self.now, detail=detail).where(Liveness.id == noted.id).execute()
        self.after(timedelta(seconds=1))

    def start_web(self) -> None:
        self.web_since = self.now

    def stop_all(self, span: timedelta) -> None:
        """Everything ends, and is back after so long."""
        self.timeline.now += span
        self.web_since = self.now
        self.run_check()

    def get_time_left(self) -> timedelta | None:
        at = Integration.get().expected_at
        return at and at - self.now

    def incidents(self) -> list[tuple[str, IncidentStatus]]:
        return [(row.title, IncidentStatus(row.status)) for row in Incident.select().order_by(Incident.id)]


@pytest.fixture
def monitored(timeline):
    set_up(timeline, heartbeat_interval=60, heartbeat_grace=30, expected_at=timeline.now + EVERY + GRACE)
    monitored = MonitoredSource(timeline, timeline.now - timedelta(hours=1))
    monitored.run_check()
    monitored.ping()
    return monitored


def set_up(timeline, **changes):
    Integration.update(name="Backup", application=HEARTBEAT, **changes).execute()
    bump_version(timeline.world.account.id)


MISSING = "No ping from Backup since 2026-03-04 12:00:00 UTC"


def newest_alert():
    return Event.select().order_by(Event.id.desc()).get().message


def test_a_thing_that_falls_silent_is_told_of_once_and_its_next_ping_ends_it(monitored):
    monitored.after(timedelta(seconds=85))
    assert monitored.incidents() == []
    monitored.after(timedelta(seconds=5))
    assert monitored.incidents() == [(MISSING, IncidentStatus.TRIGGERED)]
    monitored.after(timedelta(minutes=10))
    assert monitored.incidents() == [(MISSING, IncidentStatus.TRIGGERED)]
    assert [subject.strip() for _, subject in monitored.timeline.mails()] == [
        f"[Checkout] #1 {MISSING} (critical)"
    ]

    monitored.ping()
    assert monitored.incidents() == [(MISSING, IncidentStatus.RESOLVED)]
    assert monitored.get_time_left() == EVERY + GRACE

    monitored.after(EVERY + GRACE)
    assert [status for _, status in monitored.incidents()] == [
        IncidentStatus.RESOLVED,
        IncidentStatus.TRIGGERED,
    ]


def test_pings_in_time_or_late_by_less_than_the_grace_open_nothing(monitored):
    for pause in (IN_TIME, LATE, IN_TIME, LATE, LATE):
        monitored.after(pause)
        monitored.ping()

    assert monitored.incidents() == []
    assert Event.select().where(Event.alert_type == AlertType.RESOLVED).count() == 6


def test_a_thing_that_says_that_it_failed_is_told_of_at_once_and_goes_on_being_expected(monitored):
    monitored.after(timedelta(seconds=30))
    monitored.ping(b'{"status": "failed", "message": "Disk full"}')
    assert monitored.incidents() == [("Disk full", IncidentStatus.TRIGGERED)]
    assert monitored.get_time_left() == EVERY + GRACE

    monitored.after(EVERY + GRACE)
    assert monitored.incidents() == [("Disk full", IncidentStatus.TRIGGERED)]
    assert newest_alert() == "No ping from Backup since 2026-03-04 12:00:30 UTC"
    monitored.ping(b"status=ok")
    assert monitored.incidents() == [("Disk full", IncidentStatus.RESOLVED)]


def test_a_ping_by_another_tool_is_an_alert_like_any_other(monitored):
    monitored.after(timedelta(seconds=30))
    monitored.timeline.alert("hello", "info")

    assert monitored.get_time_left() == timedelta(seconds=60)


def test_what_takes_no_pings_misses_none(monitored):
    set_up(monitored.timeline, is_enabled=False)
    monitored.after(timedelta(minutes=10))

    assert (monitored.incidents(), Receipt.select().count()) == ([], 1)


def test_of_a_disabled_service_nothing_is_told_until_it_is_no_more(monitored):
    Service.update(status=ServiceStatus.DISABLED).execute()
    monitored.after(timedelta(minutes=10))
    assert (monitored.incidents(), Receipt.select().count()) == ([], 1)

    Service.update(status=ServiceStatus.ACTIVE).execute()
    monitored.after(CHECK_EVERY)
    assert monitored.incidents() == [(MISSING, IncidentStatus.TRIGGERED)]


def test_under_maintenance_it_is_kept_and_opens_nothing(monitored):
    Service.update(under_maintenance=True).execute()
    monitored.after(timedelta(minutes=10))

    assert monitored.incidents() == []
    assert newest_alert() == MISSING


def test_silence_that_outlasts_maintenance_is_told_once_when_that_is_over(monitored):
    Service.update(under_maintenance=True).execute()
    monitored.after(timedelta(minutes=10))
    Service.update(under_maintenance=False).execute()
    monitored.after(timedelta(minutes=10))

    assert monitored.incidents() == [(MISSING, IncidentStatus.TRIGGERED)]
    assert len(monitored.timeline.mails()) == 1


def test_silence_that_goes_on_is_said_once_in_each_time_that_a_ping_may_take(monitored):
    monitored.after(timedelta(minutes=15))

    alerts_raised = Event.select().where(Event.alert_type == AlertType.CRITICAL)
    assert [event.message for event in alerts_raised] == [MISSING] * 10
    assert (monitored.incidents(), monitored.get_time_left()) == (
        [(MISSING, IncidentStatus.TRIGGERED)],
        EVERY + GRACE,
    )
    assert len(monitored.timeline.mails()) == 1


def test_an_incident_that_ends_before_the_silence_does_is_followed_by_another(monitored):
    Service.update(auto_resolve_timeout=300).execute()
    bump_version(monitored.timeline.world.account.id)
    monitored.after(EVERY + GRACE + timedelta(seconds=300))
    assert monitored.incidents() == [(MISSING, IncidentStatus.RESOLVED)]

    monitored.after(EVERY + GRACE)
    assert monitored.incidents() == [(MISSING, IncidentStatus.RESOLVED), (MISSING, IncidentStatus.TRIGGERED)]
    monitored.ping()
    monitored.after(IN_TIME)
    assert [status for _, status in monitored.incidents()] == [IncidentStatus.RESOLVED] * 2


def test_what_is_deleted_is_expected_no_more(monitored):
    Integration.delete().execute()
    monitored.after(timedelta(minutes=10))

    assert monitored.incidents() == []


def test_what_expects_nothing_any_more_misses_nothing(monitored):
    set_up(monitored.timeline, heartbeat_interval=0, expected_at=None)
    monitored.ping()
    monitored.after(timedelta(minutes=10))

    assert (monitored.incidents(), monitored.get_time_left()) == ([], None)


def test_a_longer_time_counts_from_the_next_ping(monitored):
    monitored.after(timedelta(seconds=30))
    set_up(monitored.timeline, heartbeat_interval=3600)
    monitored.ping()

    assert monitored.get_time_left() == timedelta(seconds=3630)


# --- Tocsin's own silence ----------------------------------------------------------------------------


def test_after_a_stop_of_tocsin_nobody_is_blamed_who_comes_back_in_time(monitored):
    monitored.after(timedelta(seconds=40))
    monitored.stop_all(timedelta(minutes=10))
    assert (monitored.incidents(), monitored.get_time_left()) == ([], EVERY + GRACE)

    monitored.after(IN_TIME)
    monitored.ping()
    monitored.after(IN_TIME)
    assert monitored.incidents() == []


def test_after_a_stop_of_tocsin_who_stays_silent_is_told_of(monitored):
    monitored.stop_all(timedelta(minutes=10))
    monitored.after(EVERY + GRACE)

    assert monitored.incidents() == [(MISSING, IncidentStatus.TRIGGERED)]


def test_after_two_stops_nobody_is_blamed_who_comes_back_in_time(monitored):
    monitored.after(timedelta(seconds=40))
    for _ in range(2):
        monitored.stop_all(timedelta(minutes=10))
        monitored.after(timedelta(seconds=40))
    monitored.after(LATE - timedelta(seconds=40))
    assert monitored.incidents() == []

    monitored.after(timedelta(seconds=1))
    assert monitored.incidents() == [(MISSING, IncidentStatus.TRIGGERED)]


def test_a_stop_long_before_a_ping_is_due_gives_no_more_time(monitored):
    set_up(monitored.timeline, heartbeat_interval=3600)
    monitored.ping()
    monitored.stop_all(timedelta(minutes=10))

    assert monitored.get_time_left() == timedelta(seconds=3630) - timedelta(minutes=10)


def test_while_no_web_process_lives_nobody_is_blamed(monitored):
    web_was_since, monitored.web_since = monitored.web_since, None
    monitored.after(timedelta(minutes=10))
    assert monitored.incidents() == []

    monitored.web_since = monitored.now
    monitored.after(CHECK_EVERY)
    assert monitored.get_time_left() == EVERY + GRACE
    assert web_was_since < monitored.web_since


@pytest.mark.parametrize("back_after", [3, 10, 25])
@pytest.mark.parametrize("killed_at", [46, 58, 60])
def test_who_pings_while_a_web_process_is_killed_is_not_blamed(monitored, killed_at, back_after):
    """It gives a sign of life each 15 seconds, and counts as living for a while after the last one."""
    started_at = monitored.now
    for second in range(1, 180):
        monitored.timeline.now = started_at + timedelta(seconds=second)
        if second == killed_at:
            monitored.kill_web()
        if second == killed_at + back_after:
            monitored.start_web()
        if monitored.web_since is not None and (second % 15 == 0 or monitored.web_since == monitored.now):
            monitored.web_signals()
        missing_heartbeats.report_missing(monitored.now)
        monitored.run_due()
        if second == 120:
            monitored.ping()

    assert monitored.incidents() == []


def test_while_a_killed_web_process_still_counts_as_living_nobody_is_blamed(monitored):
    monitored.after(timedelta(seconds=50))
    monitored.kill_web()
    monitored.after(timedelta(minutes=5))

    assert monitored.incidents() == []


def test_a_second_web_process_excuses_nobody(monitored):
    """Whether the first one lives is known by its next sign of life."""
    monitored.after(timedelta(seconds=80))
    with_it = ProcessLiveness("web", "web:second", monitored.now + timedelta(seconds=2))
    monitored.timeline.now += timedelta(seconds=10)
    backlog.record_liveness(with_it, monitored.now)
    assert missing_heartbeats.report_missing(monitored.now) == 0

    monitored.after(CHECK_EVERY)
    assert monitored.incidents() == [(MISSING, IncidentStatus.TRIGGERED)]


def test_restarts_hide_silence_for_one_time_more_however_many_they_are(monitored):
    """A backup a day, which may be late by six hours, dies; each day, an hour after it, web is restarted."""
    day, hour = timedelta(days=1), timedelta(hours=1)
    set_up(monitored.timeline, heartbeat_interval=86_400, heartbeat_grace=6 * 3600)
    monitored.ping()
    last_ping = monitored.now
    for number in range(1, 4):
        monitored.jump(last_ping + number * day + hour)
        monitored.web_since = monitored.now + timedelta(seconds=2)
        monitored.after(CHECK_EVERY)
        if number == 2:
            assert monitored.incidents() == []
            assert monitored.get_time_left() == last_ping + 2 * day + 7 * hour + CHECK_EVERY - monitored.now
            monitored.jump(last_ping + 2 * day + 7 * hour + CHECK_EVERY)

    assert monitored.incidents() == [(MISSING, IncidentStatus.TRIGGERED)]
    assert monitored.timeline.incident().creation_date == last_ping + 2 * day + 7 * hour + CHECK_EVERY


def test_a_clock_that_ends_while_workers_look_hides_nothing(monitored):
    """Whoever looks, says it: no beat of the clock is needed."""
    Liveness.delete().where(Liveness.process == "clock").execute()
    monitored.after(EVERY + GRACE)

    assert monitored.incidents() == [(MISSING, IncidentStatus.TRIGGERED)]


def test_pings_that_wait_for_a_worker_have_come(monitored):
    monitored.workers_run = False
    for _ in range(3):
        monitored.after(IN_TIME)
        monitored.ping()
    monitored.after(timedelta(seconds=85))
    assert Receipt.select().where(Receipt.state == WorkState.PENDING).count() == 3

    monitored.workers_run = True
    monitored.after(timedelta(seconds=4))
    assert monitored.incidents() == []
    monitored.after(timedelta(seconds=1))
    assert [status for _, status in monitored.incidents()] == [IncidentStatus.TRIGGERED]


def test_what_fell_silent_and_came_back_while_no_worker_was_there_wakes_nobody(monitored):
    monitored.workers_run = False
    monitored.after(timedelta(minutes=5))
    monitored.ping()
    monitored.workers_run = True
    monitored.run_check()

    assert monitored.incidents() == [(MISSING, IncidentStatus.RESOLVED)]
    assert monitored.timeline.mails() == []


def test_pings_behind_a_cut_of_the_road_have_come(monitored, monkeypatch):
    monkeypatch.setattr(process_lane, "_segments", process_lane.build_segments(["normalize"]))
    monitored.workers_run = False
    monitored.after(IN_TIME)
    monitored.ping()
    process_lane.run(monitored.timeline.world.service.id, "normalize", now=monitored.now)
    assert Event.select().where(Event.state == WorkState.PENDING).count() == 1
    monitored.after(IN_TIME)
    assert Receipt.select().where(Receipt.state == WorkState.PENDING).count() == 0

    process_lane.run(monitored.timeline.world.service.id, "route", now=monitored.now)
    assert monitored.get_time_left() == EVERY + GRACE - IN_TIME


def test_a_ping_that_is_worked_on_late_takes_no_time_away(monitored):
    later = monitored.now + timedelta(hours=1)
    Integration.update(expected_at=later).execute()
    monitored.ping()

    assert Integration.get().expected_at == later


def test_of_two_clocks_and_a_worker_one_says_it(monitored, store):
    monitored.after(EVERY + GRACE - timedelta(seconds=1))
    monitored.timeline.now += timedelta(seconds=1)
    start = threading.Barrier(3, timeout=20)

    def run_check():
        with connection():
            start.wait()
            try:
                return missing_heartbeats.report_missing(monitored.now)
            finally:
                db.close()

    with ThreadPoolExecutor(3) as pool:
        raised = [each.result() for each in [pool.submit(run_check) for _ in range(3)]]
    monitored.run_due()

    assert sorted(raised) == [0, 0, 1]
    assert monitored.incidents() == [(MISSING, IncidentStatus.TRIGGERED)]
