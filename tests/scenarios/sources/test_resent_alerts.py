"""Scenarios of a source that sends its alert again each minute, and then stops or ends it."""

import json
from datetime import timedelta

import pytest

from models.domain.enums import AlertType, IncidentStatus
from models.reports import alert_answer, alert_trace, backlog
from models.reports.backlog import ProcessLiveness
from models.tables.events import Entity, Event, Receipt
from models.tables.incidents import Incident
from tests.scenarios.conftest import Timeline
from tests.support.alerts import accept
from tests.support.rules import RuleAction, action, add_rule
from workers.alerts import process_lane
from workers.periodic import expired_entities

LASTS = timedelta(minutes=4)
# How often a web process writes that it is alive.
STEP = timedelta(seconds=15)


class ResendingSource:
    """Move the time in steps; the web process is alive, and each step checks what has expired."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.started_at = timeline.now
        self.web_since = timeline.now
        self.is_web_running = True
        self.web = 1
        self.check()

    def send(self, name="DiskFull", **more) -> None:
        now = self.timeline.now
        labels = {"alertname": name, "severity": "critical"}
        body = [
            {
                "labels": labels,
                "startsAt": self.started_at.isoformat(),
                "endsAt": (now + LASTS).isoformat(),
                **more,
            }
        ]
        accept(self.timeline.world, now, source="alertmanager", body=json.dumps(body).encode(), exactly=True)
        process_lane.run(self.timeline.world.service.id)

    def after(self, **span: float) -> None:
        until = self.timeline.now + timedelta(**span)
        while self.timeline.now < until:
            self.timeline.after(seconds=min(STEP, until - self.timeline.now).total_seconds())
            self.check()

    def check(self) -> None:
        if self.is_web_running:
            process = ProcessLiveness("web", f"web:{self.web}", self.web_since)
            backlog.record_liveness(process, self.timeline.now)
        expired_entities.report_expired(self.timeline.now)
        process_lane.run(self.timeline.world.service.id)

    def stop_web(self) -> None:
        self.is_web_running = False

    def start_web(self) -> None:
        self.is_web_running, self.web_since = True, self.timeline.now
        self.web += 1
        self.check()


@pytest.fixture
def source(timeline):
    return ResendingSource(timeline)


def get_statuses():
    return [row.status for row in Incident.select().order_by(Incident.id)]


def test_an_alert_that_is_sent_again_stays_one_event_and_one_incident(source):
    for _ in range(20):
        source.send()
        source.after(minutes=1)

    assert (Event.select().count(), get_statuses()) == (1, [1])


def test_the_trace_of_an_alert_that_is_sent_again_says_so(source):
    source.send()
    source.after(minutes=1)
    source.send()

    last = Receipt.select().order_by(Receipt.id.desc()).get()
    assert alert_answer.write_answer(alert_trace.build_trace(last)) == [
        "NOBODY WAS NOTIFIED: the source sent the alert again, and it says nothing new."
    ]


def test_an_alert_that_is_not_sent_again_resolves_its_incident_when_it_expires(source):
    source.send()
    source.after(minutes=3, seconds=30)
    before = get_statuses()
    source.after(minutes=1)

    assert (before, get_statuses()) == ([1], [3])
    last = Event.select().order_by(Event.id.desc()).get()
    assert (last.message, last.alert_type) == (
        "The source does not send the alert any more",
        AlertType.RESOLVED,
    )


def test_an_alert_without_an_end_expires_after_five_minutes(source):
    source.send(endsAt="0001-01-01T00:00:00Z")
    source.after(minutes=4, seconds=30)
    before = get_statuses()
    source.after(minutes=1)

    assert (before, get_statuses()) == ([1], [3])


def test_only_the_entity_that_is_not_sent_again_expires(source):
    source.send("CpuHot")
    for _ in range(6):
        source.send()
        source.after(minutes=1)

    assert {row.title: row.status for row in Incident.select()} == {"CpuHot": 3, "DiskFull": 1}


def test_an_expired_alert_that_is_sent_again_opens_a_new_incident(source):
    source.send()
    source.after(minutes=5)
    source.send()

    assert get_statuses() == [3, 1]


def test_an_alert_that_came_before_the_report_of_its_expiry_keeps_its_incident(source, monkeypatch):
    """The alert is accepted, but not processed yet, when its entity seems to have expired."""
    source.send()
    source.timeline.after(minutes=4, seconds=10)
    with monkeypatch.context() as patch:
        patch.setattr(process_lane, "run", lambda service: None)
        source.send()
        source.check()
    source.check()

    assert get_statuses() == [1]
    assert Entity.get().expires_at > source.timeline.now


def test_after_four_hours_the_alert_counts_again(source):
    for _ in range(245):
        source.send()
        source.timeline.after(minutes=1)

    assert (Event.select().count(), get_statuses()) == (2, [1])


def test_nothing_expires_while_tocsin_takes_no_alerts_and_until_the_source_had_time(source):
    source.send()
    source.stop_web()
    source.after(minutes=10)
    source.start_web()
    source.after(minutes=1)
    source.send()
    source.after(minutes=3)

    assert get_statuses() == [1]


def test_after_an_outage_an_alert_that_is_not_sent_again_expires(source):
    source.send()
    source.stop_web()
    source.after(minutes=10)
    source.start_web()
    source.after(minutes=6)

    assert get_statuses() == [3]


def test_an_alert_that_began_in_a_maintenance_opens_an_incident_at_its_end(source, window):
    timeline = source.timeline
    window(timeline.now, timeline.now + timedelta(minutes=10))
    for _ in range(9):
        source.send()
        source.after(minutes=1)
    assert get_statuses() == []
    for _ in range(3):
        source.send()
        source.after(minutes=1)

    assert get_statuses() == [IncidentStatus.TRIGGERED]


def test_no_alert_rule_changes_the_end_of_an_alert_that_is_not_sent_again(source, world):
    add_rule(world, action(RuleAction.CHANGE_ALERT_TYPE, str(AlertType.CRITICAL.value)))
    source.send()
    source.after(minutes=5)

    assert get_statuses() == [IncidentStatus.RESOLVED]


def test_an_alert_rule_that_begins_to_suppress_an_alert_does_not_end_its_incident(source, world):
    source.send()
    add_rule(world, action(RuleAction.SUPPRESS))
    for _ in range(10):
        source.after(minutes=1)
        source.send()

    assert get_statuses() == [IncidentStatus.TRIGGERED]
    source.after(minutes=5)
    assert get_statuses() == [IncidentStatus.RESOLVED]


def test_a_suppressed_alert_that_came_before_the_report_of_its_expiry_keeps_its_incident(
    source, world, monkeypatch
):
    """The lane is behind: the report takes the end from the entity before the alert is processed."""
    source.send()
    add_rule(world, action(RuleAction.SUPPRESS))
    source.timeline.after(minutes=4, seconds=10)
    with monkeypatch.context() as patch:
        patch.setattr(process_lane, "run", lambda service: None)
        source.send()
        source.check()
    source.check()

    assert get_statuses() == [IncidentStatus.TRIGGERED]
    assert Entity.get().expires_at > source.timeline.now
    source.after(minutes=5)
    assert get_statuses() == [IncidentStatus.RESOLVED]


def test_a_suppressed_alert_after_its_end_does_not_expire_again(source, world):
    source.send()
    source.after(minutes=5)
    add_rule(world, action(RuleAction.SUPPRESS))
    source.send()

    assert get_statuses() == [IncidentStatus.RESOLVED]
    assert Entity.get().expires_at is None


def test_a_suppressed_alert_without_an_incident_does_not_expire(source, world):
    add_rule(world, action(RuleAction.SUPPRESS))
    source.send()

    assert not Entity.select().where(Entity.expires_at.is_null(False)).exists()


def end(source, ended_at):
    source.send(endsAt=ended_at.isoformat())


def test_the_alert_of_another_sender_counts_after_one_sender_reported_its_end(source):
    """Two replicas send the same alert; the first one cannot read its target any more."""
    source.send()
    source.after(seconds=50)
    ended_at = source.timeline.now
    for _ in range(15):
        end(source, ended_at)
        source.after(seconds=30)
        source.send()
        source.after(seconds=30)

    assert get_statuses() == [IncidentStatus.RESOLVED, IncidentStatus.TRIGGERED]


def test_the_end_that_the_other_sender_reports_later_resolves_the_incident(source):
    source.send()
    ended_at = source.timeline.now
    for _ in range(4):
        end(source, ended_at)
        source.after(minutes=1)
        source.send()
    before = get_statuses()
    source.after(seconds=30)
    end(source, source.timeline.now)

    assert (before, get_statuses()) == ([3, 1], [3, 3])


def test_two_senders_that_see_the_end_one_after_the_other_open_no_second_incident(source):
    source.send()
    source.after(minutes=1)
    end(source, source.timeline.now)
    source.after(seconds=20)
    source.send()
    source.after(seconds=30)
    end(source, source.timeline.now)
    source.after(minutes=10)

    assert get_statuses() == [IncidentStatus.RESOLVED]
