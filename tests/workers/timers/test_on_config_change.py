"""Timers that become earlier after a change of a policy, an SLA or a service are reconciled at once."""

from datetime import timedelta
from types import SimpleNamespace

import pytest

from models.domain.enums import IncidentStatus
from models.store.ids import make_uuid
from models.store.store import store
from models.tables.accounts import bump_version
from models.tables.incidents import Incident, IncidentLog
from models.tables.services import Service
from models.tables.teams import EscalationPolicy
from models.tables.timers import Timer
from tests.support.scenarios.sla import sla
from tests.support.scenarios.timers import MINUTE, open_incidents, set_policy
from tests.web.conftest import app, ask
from workers.timers import on_config_change

__all__ = ["app", "ask"]


@pytest.fixture
def paths(world):
    team = f"/api/account/teams/{world.team.unique_id}/"
    return SimpleNamespace(
        team=team,
        policy=f"{team}escalation_policies/{world.policy.unique_id}/",
        service=f"{team}services/{world.service.unique_id}/",
    )


@pytest.fixture
def opened_incident(world):
    """An incident with an SLA. The policy notifies Alice at once and Bob after an hour."""
    set_policy(world, (0, world.alice), (60, world.bob))
    Service.update(sla=sla(world, (1, -5, world.charlie), acknowledge=60)).execute()
    at = store().now()
    open_incidents(world, at, "db1")
    return Incident.get()


def get_due_minutes(kind):
    """Return the time between the incident's creation and the due time of its timer, in minutes."""
    one = (
        Timer.select(Timer, Incident).join(Incident).where(Timer.kind == kind, Timer.done_at.is_null()).get()
    )
    return round((one.due_at - one.incident.creation_date) / MINUTE)


def run_enqueued(enqueued):
    """Handle the wake-ups like a worker."""
    for queue_name, *row in enqueued:
        if queue_name == "reconcile":
            on_config_change.reconcile_after_change(*row)


def test_a_step_with_a_shorter_delay_runs_in_time(opened_incident, world, ask, paths, enqueued):
    rules = ask("GET", paths.policy).json["rules"]
    rules[1]["delay"] = 2
    assert ask("PATCH", paths.policy, {"rules": rules}).status_code == 200
    run_enqueued(enqueued)

    assert get_due_minutes("escalate") == 2


def test_a_shortened_sla_notifies_in_time(opened_incident, world, ask, paths, enqueued):
    path = f"{paths.team}sla/{opened_incident.sla.unique_id}/"
    assert ask("PATCH", path, {"acknowledge_time": 20 * 60}).status_code == 200
    run_enqueued(enqueued)

    assert (get_due_minutes("sla_escalation"), get_due_minutes("sla_breach")) == (15, 20)


def test_a_new_timeout_applies_to_open_incidents(opened_incident, world, ask, paths, enqueued):
    assert ask("PATCH", paths.service, {"auto_resolve_timeout": 600}).status_code == 200
    run_enqueued(enqueued)

    assert get_due_minutes("auto_resolve") == 10


@pytest.fixture
def replaced_policy(opened_incident, world):
    """The service has another policy now; its open incident still has the old one."""
    columns = {"unique_id": make_uuid(), "creation_date": store().now(), "rules": []}
    Service.update(
        escalation_policy=EscalationPolicy.create(team=world.team, name="New", **columns)
    ).execute()
    bump_version(world.account.id)


def test_a_deleted_policy_notifies_the_last_resort_at_once(replaced_policy, ask, paths, enqueued):
    assert ask("DELETE", paths.policy).status_code == 204
    run_enqueued(enqueued)

    assert get_due_minutes("escalate") == 0


def test_a_deletion_enqueues_each_service_once(replaced_policy, world, ask, paths, enqueued):
    open_incidents(world, store().now(), "db2", "db3")
    Incident.update(escalation_policy=world.policy).execute()
    ask("DELETE", paths.policy)

    assert enqueued.count(("reconcile", "service", world.service.id)) == 1


def test_a_deletion_without_open_incidents_enqueues_nothing(opened_incident, world, ask, paths, enqueued):
    assert ask("DELETE", paths.policy).status_code == 400
    Incident.update(status=IncidentStatus.RESOLVED).execute()
    Service.update(escalation_policy=None).execute()
    assert ask("DELETE", paths.policy).status_code == 204

    assert [name for name, *_ in enqueued if name == "reconcile"] == []


def test_reconciled_timers_are_logged_in_the_timeline(opened_incident, world, ask, paths, enqueued):
    ask("PATCH", paths.service, {"auto_resolve_timeout": 600})
    run_enqueued(enqueued)
    log_entry = IncidentLog.get(IncidentLog.what == "timers_reconciled")

    (missing,) = log_entry.reason.more
    assert (log_entry.reason.code, missing.code) == ("service_edited", "timers_missing")
    (key,) = missing.parameters["keys"]
    assert key.startswith("auto_resolve:")


def test_a_change_without_effect_on_timers_is_not_logged(opened_incident, world, ask, paths, enqueued):
    ask("PATCH", paths.service, {"summary": "Takes money"})
    before = IncidentLog.select().count()
    run_enqueued(enqueued)

    assert enqueued
    assert IncidentLog.select().count() == before


def test_only_incidents_with_the_changed_row_are_reconciled(opened_incident, world):
    other = sla(world, acknowledge=10, name="Other")
    Timer.delete().execute()

    assert on_config_change.reconcile_after_change("sla", other.id) == 0
    assert on_config_change.reconcile_after_change("sla", opened_incident.sla_id) > 0


def test_managers_are_notified_if_a_change_leaves_nobody_to_notify(world, now, ask, paths, enqueued):
    set_policy(world, (30, world.alice))
    open_incidents(world, store().now() - timedelta(minutes=1), "db1")
    ask("PATCH", paths.policy, {"rules": []})
    run_enqueued(enqueued)

    assert Incident.get().paged_someone
