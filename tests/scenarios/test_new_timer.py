"""A kind of timer that exists only here needs one line in the table of timers, and nothing else."""

from datetime import timedelta

import pytest

from models.domain.effects import RecordLog, TimerState
from models.domain.enums import IncidentStatus
from models.domain.facts import TimerDecision
from models.domain.reasons import make_reason
from models.tables.incidents import IncidentLog
from models.tables.timers import Timer
from pipeline.incidents import timer_table
from pipeline.incidents.timer_table import TimerSpec
from pipeline.sources.reading import generic
from tests.support.alerts import accept
from tests.support.scenarios.timers import open_incident
from web.operations.run_simulation import SimulationRequest, run_simulation
from workers.alerts import process_lane
from workers.timers import audit, fire

MINUTE = timedelta(minutes=1)
STILL_TRIGGERED = make_reason("text", text="Still triggered.")
LOGGED = make_reason("text", text="The reminder is in the timeline.")


def expect_reminder(incident, service, config):
    """Expect a reminder for each incident that is still triggered after ten minutes."""
    if incident.status is IncidentStatus.TRIGGERED:
        due_at = incident.creation_date + 10 * MINUTE
        yield TimerState(incident.unique_id, "reminder", "reminder", due_at)


def remind(context, key):
    log = RecordLog(context.incident.unique_id, context.now, "reminder", STILL_TRIGGERED, context.author)
    return TimerDecision(LOGGED, (log,), fired=True)


@pytest.fixture
def reminder(monkeypatch):
    monkeypatch.setitem(
        timer_table.TIMERS, "reminder", TimerSpec("reminder", expect_reminder, remind, once=True)
    )


def list_reminders():
    return [
        (row.author_kind, row.reason) for row in IncidentLog.select().where(IncidentLog.what == "reminder")
    ]


def test_another_timer_is_stored_fires_once_and_passes_the_audit(world, now, reminder):
    open_incident(world, now)
    fire.fire_due(now + 9 * MINUTE)
    assert list_reminders() == []

    fire.fire_due(now + 10 * MINUTE)
    audit.audit(now + 11 * MINUTE)
    fire.fire_due(now + 60 * MINUTE)

    assert list_reminders() == [("timer", STILL_TRIGGERED)]
    (row,) = Timer.select().where(Timer.kind == "reminder")
    assert (row.fired, row.outcome) == (True, LOGGED.add(make_reason("late", ms=0)))


def test_a_change_of_the_incident_ends_another_timer(world, now, reminder):
    open_incident(world, now)
    accept(world, now, message="on it", alert_type="acknowledged", entity_id="db1")
    process_lane.run(world.service.id)

    fire.fire_due(now + 60 * MINUTE)

    assert list_reminders() == []


def test_a_simulation_fires_another_timer_too(world, now, reminder):
    body = b'{"message": "Disk full", "alert_type": "critical"}'
    simulated = run_simulation(SimulationRequest(world.integration, generic.EXTENSION, body, now))

    assert ("reminder", str(LOGGED)) in [
        (each["what"], each["reason"]) for each in simulated["simulated_events"] if each["kind"] == "timer"
    ]
