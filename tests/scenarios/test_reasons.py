"""A stored reason is a code and its parameters; the English sentence is made when it is shown."""

import orjson

from models.domain.reasons import Reason
from models.store.store import db
from models.tables.events import Event, list_reasons
from models.tables.timers import Timer
from tests.support.scenarios.timers import MINUTE, open_incident, set_policy
from workers.timers import fire


def test_the_reason_of_a_stage_is_a_code_with_parameters(world, now):
    open_incident(world, now)

    reasons = dict(list_reasons(Event.get()))
    assert list(reasons) == ["normalize", "route", "rules", "dedupe", "incident", "notify"]
    assert [why.code for why in reasons.values()] == [
        "entity_given",
        "no_router",
        "no_alert_rules",
        "entity_is_new",
        "opens_incident",
        "notifies",
    ]
    assert reasons["normalize"].parameters == {"level": "critical"}


def test_the_outcome_of_a_timer_is_a_code_with_parameters(world, now):
    set_policy(world, (0, world.alice), (5, world.bob))
    open_incident(world, now)
    fire.fire_due(now + 60 * MINUTE)

    done = [row.outcome for row in Timer.select().where(Timer.done_at.is_null(False))]
    assert done
    assert all(isinstance(outcome, Reason) for outcome in done)
    assert {one.code for outcome in done for one in outcome.more} == {"late"}


def test_a_column_holds_the_code_as_json(world, now):
    open_incident(world, now)

    (stored,) = db.execute_sql("SELECT reason FROM incident_log WHERE what = 'opened'").fetchone()
    assert orjson.loads(stored)["code"] == "opened_by_alert"


def test_a_sentence_of_an_earlier_version_is_still_shown(world, now):
    set_policy(world, (0, world.alice), (5, world.bob))
    open_incident(world, now)
    db.execute_sql("UPDATE timer SET done_at = due_at, outcome = 'done once: 1 notified'")

    assert str(Timer.select().first().outcome) == "done once: 1 notified"
