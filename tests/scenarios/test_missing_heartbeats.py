"""Scenarios of a source that pings each minute with a grace of half a minute: it or Tocsin stops."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest

from models.domain.applications import HEARTBEAT
from models.domain.enums import AlertType, IncidentStatus, ServiceStatus, WorkState
from models.reports import backlog
from models.reports.backlog import ProcessLiveness
from models.store.store import connection, db
from models.tables.accounts import Liveness, bump_version
from models.tables.events import Event, Receipt
from models.tables.incidents import Incident
from models.tables.services import Integration, Service
from tests.scenarios.conftest import Timeline
from tests.support.alerts import accept
from tests.support.polling import PATIENCE_S
from tests.support.scenarios.combinations import combine
from workers.alerts import process_lane
from workers.periodic import missing_heartbeats, outages

EVERY, GRACE, CHECK_EVERY = timedelta(seconds=60), timedelta(seconds=30), timedelta(seconds=5)
IN_TIME, LATE = timedelta(seconds=60), timedelta(seconds=89)


@dataclass
class MonitoredSource:
    """Move the time in steps of `CHECK_EVERY`, each with a check; the web process is alive unless stopped."""

    timeline: Timeline
    web_since: datetime | None
    web: int = 1
    workers_run: bool = True
    # How far the clock shows more than the time that has really passed.
    clock_ahead: timedelta = timedelta()

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
        """Check for missing pings as a clock process or a worker does; return the number of alerts."""
        if self.web_since is None:
            Liveness.delete().where(Liveness.process == f"web:{self.web}").execute()
        else:
            self.web_signals()
        raised = missing_heartbeats.report_missing(self.now)
        self.run_due()
        return raised

    def web_signals(self) -> None:
        backlog.record_liveness(
            ProcessLiveness("web", f"web:{self.web}", self.web_since or self.now), self.now
        )

    def kill_web(self) -> None:
        """Kill the web process; its last liveness row stays."""
        self.web += 1
        self.web_since = None

    def run_due(self) -> None:
        if self.workers_run:
            self.timeline._run_due()

    def jump(self, until: datetime) -> None:
        """Move the time as if all processes had run without a gap."""
        self.timeline.now = until - timedelta(seconds=1)
        Liveness.update(at=self.now).where(Liveness.process.contains(":")).execute()
        stored = Liveness.get(Liveness.process == outages.PROCESS)
        detail = {**stored.detail, "until": self.now.isoformat()}
        Liveness.update(at=self.now, detail=detail).where(Liveness.id == stored.id).execute()
        self.after(timedelta(seconds=1))

    def start_web(self) -> None:
        """Start a web process. The one before it, if it was not killed, ended in order."""
        Liveness.delete().where(Liveness.process == f"web:{self.web}").execute()
        self.web += 1
        self.web_since = self.now

    def stop_all(self, span: timedelta) -> None:
        """Stop all processes and start them again after this time."""
        self.timeline.now += span
        self.start_web()
        self.run_check()

    def set_clock(self, step: timedelta) -> None:
        self.timeline.now += step
        self.clock_ahead += step

    def ping_for(self, span: timedelta) -> None:
        """Let the source ping at each full minute of real time. Without a web process, the ping is lost."""
        until = self.now + span
        while self.now < until:
            self.after(CHECK_EVERY)
            if (self.now - self.clock_ahead).second == 0 and self.web_since is not None:
                self.ping()

    def get_report_time(self, within: timedelta) -> timedelta | None:
        """Return how long it takes until a missing ping is reported; None if it takes longer than this."""
        since = self.now
        while self.now - since < within:
            self.after(CHECK_EVERY)
            if self.incidents():
                return self.now - since
        return None

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


def test_a_missing_ping_opens_one_incident_and_the_next_ping_resolves_it(monitored):
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


def test_pings_in_time_or_within_the_grace_open_no_incident(monitored):
    for pause in (IN_TIME, LATE, IN_TIME, LATE, LATE):
        monitored.after(pause)
        monitored.ping()

    assert monitored.incidents() == []
    assert Event.select().where(Event.alert_type == AlertType.RESOLVED).count() == 6


def test_a_reported_failure_opens_an_incident_at_once_and_pings_stay_expected(monitored):
    monitored.after(timedelta(seconds=30))
    monitored.ping(b'{"status": "failed", "message": "Disk full"}')
    assert monitored.incidents() == [("Disk full", IncidentStatus.TRIGGERED)]
    assert monitored.get_time_left() == EVERY + GRACE

    monitored.after(EVERY + GRACE)
    assert monitored.incidents() == [("Disk full", IncidentStatus.TRIGGERED)]
    assert newest_alert() == "No ping from Backup since 2026-03-04 12:00:30 UTC"
    monitored.ping(b"status=ok")
    assert monitored.incidents() == [("Disk full", IncidentStatus.RESOLVED)]


def test_a_body_like_a_report_of_tocsin_is_a_ping_that_reports_a_failure(monitored):
    monitored.after(timedelta(seconds=30))
    monitored.ping(b'{"status": "missing", "message": "No ping from Backup since yesterday"}')

    assert monitored.incidents() == [("No ping from Backup since yesterday", IncidentStatus.TRIGGERED)]
    assert not Event.get(Event.message.contains("since yesterday")).alert.get("is_own")
    assert monitored.get_time_left() == EVERY + GRACE


def test_an_alert_of_another_source_does_not_count_as_a_ping(monitored):
    monitored.after(timedelta(seconds=30))
    monitored.timeline.alert("hello", "info")

    assert monitored.get_time_left() == timedelta(seconds=60)


def test_a_disabled_integration_misses_no_pings(monitored):
    set_up(monitored.timeline, is_enabled=False)
    monitored.after(timedelta(minutes=10))

    assert (monitored.incidents(), Receipt.select().count()) == ([], 1)


def test_a_missing_ping_of_a_disabled_service_is_reported_when_it_is_enabled_again(monitored):
    Service.update(status=ServiceStatus.DISABLED).execute()
    monitored.after(timedelta(minutes=10))
    assert (monitored.incidents(), Receipt.select().count()) == ([], 1)

    Service.update(status=ServiceStatus.ACTIVE).execute()
    monitored.after(CHECK_EVERY)
    assert monitored.incidents() == [(MISSING, IncidentStatus.TRIGGERED)]


def test_a_missing_ping_under_maintenance_is_stored_and_opens_no_incident(monitored):
    Service.update(under_maintenance=True).execute()
    monitored.after(timedelta(minutes=10))

    assert monitored.incidents() == []
    assert newest_alert() == MISSING


def test_a_ping_still_missing_at_the_end_of_maintenance_is_reported_once(monitored):
    Service.update(under_maintenance=True).execute()
    monitored.after(timedelta(minutes=10))
    Service.update(under_maintenance=False).execute()
    monitored.after(timedelta(minutes=10))

    assert monitored.incidents() == [(MISSING, IncidentStatus.TRIGGERED)]
    assert len(monitored.timeline.mails()) == 1


def test_missing_pings_raise_one_alert_per_interval_and_grace(monitored):
    monitored.after(timedelta(minutes=15))

    alerts_raised = Event.select().where(Event.alert_type == AlertType.CRITICAL)
    assert [event.message for event in alerts_raised] == [MISSING] * 10
    assert (monitored.incidents(), monitored.get_time_left()) == (
        [(MISSING, IncidentStatus.TRIGGERED)],
        EVERY + GRACE,
    )
    assert len(monitored.timeline.mails()) == 1


def test_a_resolved_incident_is_followed_by_another_while_pings_are_missing(monitored):
    Service.update(auto_resolve_timeout=300).execute()
    bump_version(monitored.timeline.world.account.id)
    monitored.after(EVERY + GRACE + timedelta(seconds=300))
    assert monitored.incidents() == [(MISSING, IncidentStatus.RESOLVED)]

    monitored.after(EVERY + GRACE)
    assert monitored.incidents() == [(MISSING, IncidentStatus.RESOLVED), (MISSING, IncidentStatus.TRIGGERED)]
    monitored.ping()
    monitored.after(IN_TIME)
    assert [status for _, status in monitored.incidents()] == [IncidentStatus.RESOLVED] * 2


def test_a_deleted_integration_expects_no_pings(monitored):
    Integration.delete().execute()
    monitored.after(timedelta(minutes=10))

    assert monitored.incidents() == []


def test_an_integration_without_an_interval_expects_no_pings(monitored):
    set_up(monitored.timeline, heartbeat_interval=0, expected_at=None)
    monitored.ping()
    monitored.after(timedelta(minutes=10))

    assert (monitored.incidents(), monitored.get_time_left()) == ([], None)


def test_a_longer_interval_counts_from_the_next_ping(monitored):
    monitored.after(timedelta(seconds=30))
    set_up(monitored.timeline, heartbeat_interval=3600)
    monitored.ping()

    assert monitored.get_time_left() == timedelta(seconds=3630)


# --- Outages of Tocsin itself ------------------------------------------------------------------------


def test_after_an_outage_a_source_that_pings_in_time_is_not_reported(monitored):
    monitored.after(timedelta(seconds=40))
    monitored.stop_all(timedelta(minutes=10))
    assert (monitored.incidents(), monitored.get_time_left()) == ([], EVERY + GRACE)

    monitored.after(IN_TIME)
    monitored.ping()
    monitored.after(IN_TIME)
    assert monitored.incidents() == []


def test_after_an_outage_a_source_that_stays_silent_is_reported(monitored):
    monitored.stop_all(timedelta(minutes=10))
    monitored.after(EVERY + GRACE)

    assert monitored.incidents() == [(MISSING, IncidentStatus.TRIGGERED)]


def test_after_two_outages_a_source_that_pings_in_time_is_not_reported(monitored):
    monitored.after(timedelta(seconds=40))
    for _ in range(2):
        monitored.stop_all(timedelta(minutes=10))
        monitored.after(timedelta(seconds=40))
    monitored.after(LATE - timedelta(seconds=40))
    assert monitored.incidents() == []

    monitored.after(timedelta(seconds=1))
    assert monitored.incidents() == [(MISSING, IncidentStatus.TRIGGERED)]


def test_an_outage_long_before_a_ping_is_due_does_not_extend_the_deadline(monitored):
    set_up(monitored.timeline, heartbeat_interval=3600)
    monitored.ping()
    monitored.stop_all(timedelta(minutes=10))

    assert monitored.get_time_left() == timedelta(seconds=3630) - timedelta(minutes=10)


def test_no_source_is_reported_while_no_web_process_runs(monitored):
    previous_start, monitored.web_since = monitored.web_since, None
    monitored.after(timedelta(minutes=10))
    assert monitored.incidents() == []

    monitored.start_web()
    monitored.after(CHECK_EVERY)
    assert monitored.get_time_left() == EVERY + GRACE
    assert previous_start < monitored.web_since


@pytest.mark.parametrize(("killed_at", "back_after"), combine([46, 58, 60], [3, 10, 25]))
def test_a_source_that_pings_while_a_web_process_is_killed_is_not_reported(monitored, killed_at, back_after):
    """A web process writes its liveness each 15 seconds and counts as running for a while after that."""
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


def test_no_source_is_reported_while_a_killed_web_process_still_counts_as_running(monitored):
    monitored.after(timedelta(seconds=50))
    monitored.kill_web()
    monitored.after(timedelta(minutes=5))

    assert monitored.incidents() == []


def test_a_second_web_process_does_not_extend_a_deadline(monitored):
    """The next liveness of the first web process shows that it still runs."""
    monitored.after(timedelta(seconds=80))
    second_web = ProcessLiveness("web", "web:second", monitored.now + timedelta(seconds=2))
    monitored.timeline.now += timedelta(seconds=10)
    backlog.record_liveness(second_web, monitored.now)
    assert missing_heartbeats.report_missing(monitored.now) == 0

    monitored.after(CHECK_EVERY)
    assert monitored.incidents() == [(MISSING, IncidentStatus.TRIGGERED)]


def test_many_restarts_extend_a_deadline_once(monitored):
    """A daily backup with a grace of six hours stops; the web process restarts each day an hour later."""
    day, hour = timedelta(days=1), timedelta(hours=1)
    set_up(monitored.timeline, heartbeat_interval=86_400, heartbeat_grace=6 * 3600)
    monitored.ping()
    last_ping = monitored.now
    for number in range(1, 4):
        monitored.jump(last_ping + number * day + hour)
        monitored.start_web()
        monitored.web_since += timedelta(seconds=2)
        monitored.after(CHECK_EVERY)
        if number == 2:
            assert monitored.incidents() == []
            assert monitored.get_time_left() == last_ping + 2 * day + 7 * hour + CHECK_EVERY - monitored.now
            monitored.jump(last_ping + 2 * day + 7 * hour + CHECK_EVERY)

    assert monitored.incidents() == [(MISSING, IncidentStatus.TRIGGERED)]
    assert monitored.timeline.incident().creation_date == last_ping + 2 * day + 7 * hour + CHECK_EVERY


def test_a_stopped_clock_process_hides_no_missing_ping_while_workers_run(monitored):
    """Workers report missing pings too, so the clock process is not needed."""
    Liveness.delete().where(Liveness.process == "clock").execute()
    monitored.after(EVERY + GRACE)

    assert monitored.incidents() == [(MISSING, IncidentStatus.TRIGGERED)]


def test_pending_pings_count_as_arrived(monitored):
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


def test_a_source_that_was_silent_only_while_no_worker_ran_notifies_nobody(monitored):
    monitored.workers_run = False
    monitored.after(timedelta(minutes=5))
    monitored.ping()
    monitored.workers_run = True
    monitored.run_check()

    assert monitored.incidents() == [(MISSING, IncidentStatus.RESOLVED)]
    assert monitored.timeline.mails() == []


def test_pings_behind_a_queue_split_count_as_arrived(monitored, monkeypatch):
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


def test_a_ping_processed_late_does_not_move_the_deadline_back(monitored):
    later = monitored.now + timedelta(hours=1)
    Integration.update(expected_at=later).execute()
    monitored.ping()

    assert Integration.get().expected_at == later


def test_two_clocks_and_a_worker_report_a_missing_ping_once(monitored, store):
    monitored.after(EVERY + GRACE - timedelta(seconds=1))
    monitored.timeline.now += timedelta(seconds=1)
    monitored.web_signals()
    start = threading.Barrier(3, timeout=PATIENCE_S)

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


# --- What Tocsin guarantees about its own outages ------------------------------------------------------

SHORT, LONG = timedelta(seconds=5), timedelta(minutes=10)


def kill(monitored, span):
    """Kill the web process and start another after this time."""
    monitored.kill_web()
    monitored.ping_for(span)
    monitored.start_web()


def stop(monitored, span):
    """Stop the web process in order and start another after this time."""
    monitored.web_since = None
    monitored.ping_for(span)
    monitored.start_web()


def lose_database(monitored, span):
    """The web process lives, but takes no pings and writes no liveness.

    No process can look for missing pings either.
    """
    monitored.timeline.now += max(span, timedelta(seconds=30))


def lose_host(monitored, span):
    monitored.kill_web()
    monitored.timeline.now += span
    monitored.start_web()


@pytest.mark.parametrize(
    ("fail", "begins_s", "span"),
    combine([kill, stop, lose_database, lose_host], [0, 30, 55], [SHORT, EVERY, LONG]),
)
def test_nobody_is_paged_for_a_ping_that_could_have_come_while_no_web_process_took_pings(
    monitored, fail, begins_s, span
):
    monitored.ping_for(EVERY + timedelta(seconds=begins_s))
    fail(monitored, span)
    monitored.ping_for(5 * EVERY)

    assert monitored.incidents() == []


def test_a_long_outage_soon_after_a_short_one_pages_nobody(monitored):
    monitored.ping_for(timedelta(seconds=55))
    kill(monitored, SHORT)
    monitored.ping_for(timedelta(seconds=35))
    kill(monitored, LONG)
    kill(monitored, SHORT)
    monitored.ping_for(5 * EVERY)

    assert monitored.incidents() == []


def test_a_dead_worker_gives_a_silent_source_no_more_time(monitored, monkeypatch):
    """The clock process still looks for missing pings; the worker reports them as soon as it runs."""
    monkeypatch.setattr(missing_heartbeats.report_heartbeats, "send", lambda: None)
    for _ in range(0, int(LONG.total_seconds()), 5):
        monitored.timeline.now += CHECK_EVERY
        monitored.web_signals()
        missing_heartbeats.enqueue_overdue(monitored.now)
    assert monitored.incidents() == []

    monitored.run_check()
    assert monitored.incidents() == [(MISSING, IncidentStatus.TRIGGERED)]


def test_dead_workers_and_clocks_give_a_silent_source_no_more_time(monitored):
    for _ in range(0, int(LONG.total_seconds()), 5):
        monitored.timeline.now += CHECK_EVERY
        monitored.web_signals()

    monitored.run_check()
    assert monitored.incidents() == [(MISSING, IncidentStatus.TRIGGERED)]


def test_a_ping_to_a_web_process_that_is_killed_late_in_the_grace_is_not_reported(monitored):
    """The ping is lost after the due time was covered."""
    monitored.after(timedelta(seconds=75))
    monitored.kill_web()
    monitored.after(timedelta(seconds=15))
    monitored.start_web()
    monitored.after(timedelta(seconds=60))
    monitored.ping()

    assert monitored.incidents() == []


@pytest.mark.parametrize(("fail", "restart_each_s"), combine([kill, stop, lose_host], [10, 20, 45, 85]))
def test_a_silent_source_is_reported_however_often_tocsin_restarts(monitored, fail, restart_each_s):
    """The outages before the deadline count as one; those after it give no more time."""
    deadline = monitored.now + EVERY + GRACE
    monitored.ping = lambda: None
    last_end = deadline
    while not monitored.incidents() and monitored.now < deadline + 5 * EVERY:
        monitored.after(timedelta(seconds=restart_each_s) - SHORT)
        begins = monitored.now
        fail(monitored, SHORT)
        last_end = monitored.now if begins <= deadline else last_end

    latency = timedelta(seconds=restart_each_s + 40)
    assert monitored.incidents() == [(MISSING, IncidentStatus.TRIGGERED)]
    assert monitored.timeline.incident().creation_date <= last_end + EVERY + GRACE + latency


@pytest.mark.parametrize("step", [timedelta(hours=hours) for hours in (-5, -1, 1, 5)], ids=str)
def test_a_source_that_pings_is_not_reported_when_the_clock_is_set(monitored, step):
    for _ in range(3):
        monitored.ping_for(timedelta(seconds=155))
        monitored.set_clock(step)
    monitored.ping_for(LONG)

    assert monitored.incidents() == []


@pytest.mark.parametrize(
    ("fail", "step"),
    combine([kill, lose_host], [timedelta(hours=hours) for hours in (-5, -1, 1, 5)]),
)
def test_an_outage_pages_nobody_when_the_clock_is_set_in_it(monitored, fail, step):
    monitored.ping_for(timedelta(seconds=115))
    monitored.set_clock(step)
    fail(monitored, LONG)
    monitored.ping_for(LONG)

    assert monitored.incidents() == []


@pytest.mark.parametrize("step", [timedelta(hours=hours) for hours in (-5, -1, 1, 5)], ids=str)
def test_a_silent_source_is_reported_when_the_clock_is_set(monitored, step):
    monitored.ping_for(timedelta(seconds=115))
    monitored.set_clock(step)

    assert monitored.get_report_time(LONG) <= EVERY + GRACE + CHECK_EVERY


def test_a_pending_ping_counts_as_received_after_an_outage(monitored):
    """Workers process it only after the next ping, which a short outage has lost, was due."""
    monitored.workers_run = False
    monitored.ping_for(EVERY)
    monitored.after(timedelta(seconds=55))
    kill(monitored, timedelta(seconds=10))
    monitored.after(timedelta(seconds=50))
    monitored.workers_run = True
    monitored.run_check()
    monitored.ping_for(5 * EVERY)

    assert monitored.incidents() == []
