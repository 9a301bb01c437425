"""Running a segment: at which stage alerts are pending, and which entities are missing."""

import pytest

from models.domain.effects import EntityState
from models.domain.enums import AlertType, WorkState
from models.domain.facts import PastIncident
from models.domain.values import replace
from pipeline.lane_state import LaneState
from pipeline.rules.rulesets import RuleSet
from pipeline.run_stages import AlertInProgress, build_segment_event, parse_options, run_stages
from pipeline.topology import build_segments
from tests.support.facts import MINUTE, NOON, alert, incident, lane
from tests.support.rules import RuleAction, action, rule_facts, var

A = RuleAction
PLAIN = RuleSet([rule_facts(action(A.CHANGE_MESSAGE, "changed"))])
RULES_WITH_PAST = RuleSet([rule_facts(action(A.SUPPRESS), when={"<": [var("seconds_since_last"), 600]})])
RULES_FOR_ENTITY = RuleSet([rule_facts(action(A.CHANGE_ENTITY_ID, "rack"))])


def state(rules, *entities, loaded=None, past=None):
    known = [EntityState(7, name, last_incident=last) for name, last in entities]
    return LaneState(lane(), known, rulesets={7: rules}, loaded_keys=loaded, past_incidents=past or {})


def run_one(segment, where, progress=None):
    (event,) = run_stages([progress or AlertInProgress(alert())], segment, where).events
    return event


def list_stages(event):
    return [stage for stage, _ in event.reasons]


ALL_STAGES = ["normalize", "route", "rules", "dedupe", "incident", "notify"]


@pytest.mark.parametrize("rules", [PLAIN, RULES_WITH_PAST], ids=["plain", "reads past incidents"])
def test_a_pipeline_without_queue_splits_runs_all_stages(rules):
    (whole_pipeline,) = build_segments()
    event = run_one(whole_pipeline, state(rules))

    assert list_stages(event) == ALL_STAGES
    assert (event.stage, event.state) == ("", WorkState.DONE)


def test_an_alert_is_pending_for_the_next_segment_after_a_queue_split():
    first, _ = build_segments(["rules"])
    event = run_one(first, state(PLAIN))

    assert list_stages(event) == ["normalize", "route", "rules"]
    assert (event.stage, event.state, event.message) == ("dedupe", WorkState.PENDING, "changed")
    assert "next_stage" not in event.alert


@pytest.mark.parametrize(
    "queue_splits", [("rules",), ("normalize", "rules"), ("normalize", "route", "rules"), ("route", "rules")]
)
def test_rules_that_read_past_incidents_run_in_the_last_segment(queue_splits):
    *before, last = build_segments(queue_splits)
    where = state(RULES_WITH_PAST, ("db1", "incident-0"), past={"incident-0": PastIncident(5, NOON - MINUTE)})
    progress = AlertInProgress(alert())
    for segment in before:
        event = run_one(segment, where, progress)
        next_stage = event.alert.get("next_stage") or event.stage
        progress = AlertInProgress(progress.alert, event.reasons, event.rules, next_stage)

    assert (event.stage, event.alert["next_stage"]) == ("dedupe", "rules")
    assert list_stages(event) == ["normalize", "route"]
    ended = run_one(last, where, progress)
    assert list_stages(ended) == ["normalize", "route", "rules", "dedupe"]
    assert (ended.suppressed, ended.stage, ended.state) == (True, "", WorkState.DONE)
    assert "next_stage" not in ended.alert


def test_rules_that_read_past_incidents_run_at_once_without_a_later_split():
    first, last = build_segments(["normalize"])
    event = run_one(first, state(RULES_WITH_PAST))

    assert event.stage == "route"
    assert (
        list_stages(run_one(last, state(RULES_WITH_PAST), AlertInProgress(alert(), event.reasons)))
        == ALL_STAGES
    )


def test_an_alert_of_a_router_continues_after_routing():
    (whole_pipeline,) = build_segments()
    event = run_one(
        whole_pipeline,
        state(PLAIN),
        AlertInProgress(alert(), (("normalize", "x"), ("route", "y")), next_stage="rules"),
    )

    assert list_stages(event) == ALL_STAGES


def test_an_entity_that_was_not_loaded_is_missing():
    (whole_pipeline,) = build_segments()
    where = state(RULES_FOR_ENTITY, loaded={(7, "db1")})
    run_one(whole_pipeline, where)

    assert where.missing == {(7, "rack")}


def test_an_entity_that_was_looked_up_without_result_is_not_missing():
    (whole_pipeline,) = build_segments()
    where = state(RULES_FOR_ENTITY, loaded={(7, "db1"), (7, "rack")})
    run_one(whole_pipeline, where)

    assert where.missing == set()


def test_an_entity_whose_past_incidents_a_rule_reads_is_missing():
    both = RuleSet(
        [*(rule.facts for rule in RULES_FOR_ENTITY.rules), *(rule.facts for rule in RULES_WITH_PAST.rules)]
    )
    where = state(both, loaded={(7, "db1")})
    where.facts = lane(create_incidents_for=0)
    (whole_pipeline,) = build_segments()
    run_one(whole_pipeline, where)

    assert (7, "rack") in where.missing


@pytest.mark.parametrize(
    ("entity", "incidents", "past", "expected"),
    [
        (EntityState(7, "db1"), [], {}, None),
        (EntityState(7, "db1", last_incident="gone"), [], {}, None),
        (EntityState(7, "db1", last_incident="old"), [], {"old": PastIncident(9, NOON - 2 * MINUTE)}, 120),
        (
            EntityState(7, "db1", incident="incident-1", last_incident="incident-1"),
            [incident(creation_date=NOON - MINUTE)],
            {},
            60,
        ),
        (
            EntityState(7, "db1", last_incident="incident-1"),
            [incident(creation_date=NOON - 9 * MINUTE, resolved_date=NOON - 3 * MINUTE)],
            {},
            180,
        ),
        (EntityState(7, "db1", last_incident="old"), [], {"old": PastIncident(9, NOON + MINUTE)}, 0),
    ],
    ids=["none", "deleted", "over", "open", "over in this batch", "in the future"],
)
def test_seconds_since_last_count_from_the_end_or_from_the_creation_of_an_open_incident(
    entity, incidents, past, expected
):
    where = LaneState(lane(), [entity], incidents, past_incidents=past)

    assert where.get_seconds_since_last(alert(), NOON) == expected


def test_incident_options_are_stored_in_the_alerts_row_and_read_back():
    changed = alert().with_options(
        escalation_policy=1,
        assigned_to="bob",
        urgency=0,
        sla=2,
        team_priority=3,
        delay_s=60,
        notes=("n",),
        tags=(4,),
    )
    (segment, _), state = build_segments(["rules"]), LaneState(lane())
    row = build_segment_event(AlertInProgress(changed), segment, state)
    plain = build_segment_event(AlertInProgress(alert()), segment, state)

    assert parse_options(row.alert["options"]) == changed.options
    assert parse_options(plain.alert.get("options")) == alert().options


def test_each_alert_sees_the_effects_of_earlier_alerts():
    (whole_pipeline,) = build_segments()
    levels = (AlertType.CRITICAL, AlertType.RESOLVED, AlertType.CRITICAL)
    alerts = [
        replace(alert(level, number=n), accepted_at=NOON + n * MINUTE) for n, level in enumerate(levels)
    ]
    where = state(RULES_WITH_PAST)

    events = run_stages([AlertInProgress(each) for each in alerts], whole_pipeline, where).events

    assert [event.suppressed for event in events] == [False, True, True]
