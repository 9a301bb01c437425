"""What comes sooner by a change of a policy, an SLA or a service is not left to the next audit."""

from datetime import timedelta
from types import SimpleNamespace

import pytest

from models.accounts import raise_version
from models.base import store
from models.enums import IncidentStatus
from models.ids import new_uuid
from models.incidents import Incident, IncidentLog
from models.services import Service
from models.teams import EscalationPolicy
from models.timers import Timer
from tests.scenarios.test_sla_nights import sla
from tests.web.conftest import app, ask
from tests.workers.test_timers import MINUTE, open_many, set_policy
from workers import bell, replanning

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
def rung(monkeypatch):
    bells = []
    monkeypatch.setattr(bell, "ring", lambda *bell: bells.append(bell))
    return bells


@pytest.fixture
def opened(world):
    """An incident under an SLA: Alice is told at once, Bob in an hour."""
    set_policy(world, (0, world.alice), (60, world.bob))
    Service.update(sla=sla(world, (1, -5, world.charlie), acknowledge=60)).execute()
    at = store().now()
    open_many(world, at, "db1")
    return Incident.get()


def due(kind):
    """In how many minutes after its incident began the timer of a kind is due."""
    one = (
        Timer.select(Timer, Incident).join(Incident).where(Timer.kind == kind, Timer.done_at.is_null()).get()
    )
    return round((one.due_at - one.incident.creation_date) / MINUTE)


def answered(rung):
    """What a worker does about the bells."""
    for queue, *row in rung:
        if queue == bell.REPLANNING:
            replanning.plan_anew(*row)


def test_a_step_that_is_brought_forward_is_taken_in_time(opened, world, ask, paths, rung):
    rules = ask("GET", paths.policy).json["rules"]
    rules[1]["delay"] = 2
    assert ask("PATCH", paths.policy, {"rules": rules}).status_code == 200
    answered(rung)

    assert due("escalate") == 2


def test_an_sla_that_is_shortened_is_told_in_time(opened, world, ask, paths, rung):
    path = f"{paths.team}sla/{opened.sla.unique_id}/"
    assert ask("PATCH", path, {"acknowledge_time": 20 * 60}).status_code == 200
    answered(rung)

    assert (due("sla_escalation"), due("sla_breach")) == (15, 20)


def test_a_service_that_is_given_a_timeout_keeps_it_for_what_is_open(opened, world, ask, paths, rung):
    assert ask("PATCH", paths.service, {"auto_resolve_timeout": 600}).status_code == 200
    answered(rung)

    assert due("auto_resolve") == 10


@pytest.fixture
def replaced(opened, world):
    """The service follows another policy now, its open incident still the old one."""
    columns = {"unique_id": new_uuid(), "creation_date": store().now(), "rules": []}
    Service.update(
        escalation_policy=EscalationPolicy.create(team=world.team, name="New", **columns)
    ).execute()
    raise_version(world.account.id)


def test_who_is_told_of_a_chain_whose_policy_is_deleted_hears_at_once(replaced, ask, paths, rung):
    assert ask("DELETE", paths.policy).status_code == 204
    answered(rung)

    assert due("escalate") == 0


def test_however_many_incidents_follow_what_is_deleted_their_service_is_looked_at_once(
    replaced, world, ask, paths, rung
):
    open_many(world, store().now(), "db2", "db3")
    Incident.update(escalation_policy=world.policy).execute()
    ask("DELETE", paths.policy)

    assert rung.count((bell.REPLANNING, "service", world.service.id)) == 1


def test_a_deletion_that_leaves_no_open_incident_behind_or_is_refused_rings_for_nothing(
    opened, world, ask, paths, rung
):
    assert ask("DELETE", paths.policy).status_code == 400
    Incident.update(status=IncidentStatus.RESOLVED).execute()
    Service.update(escalation_policy=None).execute()
    assert ask("DELETE", paths.policy).status_code == 204

    assert [queue for queue, *_ in rung if queue == bell.REPLANNING] == []


def test_what_was_planned_anew_is_told_in_the_timeline(opened, world, ask, paths, rung):
    ask("PATCH", paths.service, {"auto_resolve_timeout": 600})
    answered(rung)
    told = IncidentLog.get(IncidentLog.what == "planned_anew")

    assert told.reason.startswith("missing: auto_resolve:")


def test_a_change_that_moves_nothing_is_told_nowhere(opened, world, ask, paths, rung):
    ask("PATCH", paths.service, {"summary": "Takes money"})
    before = IncidentLog.select().count()
    answered(rung)

    assert rung
    assert IncidentLog.select().count() == before


def test_only_incidents_that_follow_what_was_changed_are_looked_at(opened, world):
    other = sla(world, acknowledge=10, name="Other")
    Timer.delete().execute()

    assert replanning.plan_anew("sla", other.id) == 0
    assert replanning.plan_anew("sla", opened.sla_id) > 0


def test_one_whom_a_change_leaves_nobody_to_hear_is_told_to_the_managers(world, now, ask, paths, rung):
    set_policy(world, (30, world.alice))
    open_many(world, store().now() - timedelta(minutes=1), "db1")
    ask("PATCH", paths.policy, {"rules": []})
    answered(rung)

    assert Incident.get().reached
