"""The fold over a segment: what waits where, what is taken up again, what is asked for."""

from dataclasses import replace

import pytest

from models.domain.effects import EntityState
from models.domain.enums import AlertType, RuleAction, WorkState
from pipeline.lane_state import LaneState, PastIncident
from pipeline.rules.rulesets import RuleSet
from pipeline.run_stages import AlertInProgress, build_event, parse_options, run_stages
from pipeline.topology import build_segments
from tests.support.facts import MINUTE, NOON, alert, incident, lane
from tests.support.rules import action, rule_facts, var

A = RuleAction
PLAIN = RuleSet([rule_facts(action(A.CHANGE_MESSAGE, "changed"))])
RULES_WITH_PAST = RuleSet([rule_facts(action(A.SUPPRESS), when={"<": [var("seconds_since_last"), 600]})])
RULES_FOR_ENTITY = RuleSet([rule_facts(action(A.CHANGE_ENTITY_ID, "rack"))])


def state(rules, *entities, asked=None, past=None):
    known = [EntityState(7, name, last_incident=last) for name, last in entities]
    return LaneState(lane(), known, rulesets={7: rules}, loaded_keys=asked, past_incidents=past or {})


def run_one(segment, where, traveller=None):
    (event,) = run_stages([traveller or AlertInProgress(alert())], segment, where).events
    return event


def list_stages(event):
    return [stage for stage, _ in event.reasons]


ALL_STAGES = ["normalize", "route", "rules", "dedupe", "incident", "notify"]


@pytest.mark.parametrize("rules", [PLAIN, RULES_WITH_PAST], ids=["plain", "looks back"])
def test_an_uncut_road_is_walked_to_its_end(rules):
    (segment_of_all,) = build_segments()
    event = run_one(segment_of_all, state(rules))

    assert list_stages(event) == ALL_STAGES
    assert (event.stage, event.state) == ("", WorkState.DONE)


def test_a_cut_road_waits_at_the_next_segment():
    first, _ = build_segments(["rules"])
    event = run_one(first, state(PLAIN))

    assert list_stages(event) == ["normalize", "route", "rules"]
    assert (event.stage, event.state, event.message) == ("dedupe", WorkState.PENDING, "changed")
    assert "next_stage" not in event.alert


@pytest.mark.parametrize(
    "cuts", [("rules",), ("normalize", "rules"), ("normalize", "route", "rules"), ("route", "rules")]
)
def test_rules_that_look_back_wait_for_the_last_segment_where_the_past_is_known(cuts):
    *before, last = build_segments(cuts)
    where = state(RULES_WITH_PAST, ("db1", "incident-0"), past={"incident-0": PastIncident(5, NOON - MINUTE)})
    traveller = AlertInProgress(alert())
    for segment in before:
        event = run_one(segment, where, traveller)
        taken_up = event.alert.get("next_stage") or event.stage
        traveller = AlertInProgress(traveller.alert, event.reasons, event.rules, taken_up)

    assert (event.stage, event.alert["next_stage"]) == ("dedupe", "rules")
    assert list_stages(event) == ["normalize", "route"]
    ended = run_one(last, where, traveller)
    assert list_stages(ended) == ["normalize", "route", "rules", "dedupe"]
    assert (ended.suppressed, ended.stage, ended.state) == (True, "", WorkState.DONE)
    assert "next_stage" not in ended.alert


def test_rules_that_look_back_decide_where_the_road_is_not_cut_behind_them():
    first, last = build_segments(["normalize"])
    event = run_one(first, state(RULES_WITH_PAST))

    assert event.stage == "route"
    assert (
        list_stages(run_one(last, state(RULES_WITH_PAST), AlertInProgress(alert(), event.reasons)))
        == ALL_STAGES
    )


def test_an_alert_that_a_router_sent_goes_on_behind_the_routing():
    (segment_of_all,) = build_segments()
    event = run_one(
        segment_of_all,
        state(PLAIN),
        AlertInProgress(alert(), (("normalize", "x"), ("route", "y")), next_stage="rules"),
    )

    assert list_stages(event) == ALL_STAGES


def test_entities_that_nobody_looked_for_are_asked_for():
    (segment_of_all,) = build_segments()
    where = state(RULES_FOR_ENTITY, asked={(7, "db1")})
    run_one(segment_of_all, where)

    assert where.missing == {(7, "rack")}


def test_nothing_is_asked_for_that_was_looked_for_and_is_not_there():
    (segment_of_all,) = build_segments()
    where = state(RULES_FOR_ENTITY, asked={(7, "db1"), (7, "rack")})
    run_one(segment_of_all, where)

    assert where.missing == set()


def test_the_history_of_an_entity_that_a_rule_names_is_asked_for():
    both = RuleSet(
        [*(rule.facts for rule in RULES_FOR_ENTITY.rules), *(rule.facts for rule in RULES_WITH_PAST.rules)]
    )
    where = state(both, asked={(7, "db1")})
    where.facts = lane(create_incidents_for=0)
    (segment_of_all,) = build_segments()
    run_one(segment_of_all, where)

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
def test_seconds_count_from_the_end_of_the_last_incident_or_from_the_beginning_of_an_open_one(
    entity, incidents, past, expected
):
    where = LaneState(lane(), [entity], incidents, past_incidents=past)

    assert where.get_seconds_since_last(alert(), NOON) == expected


def test_a_plan_is_kept_in_the_alerts_row_and_read_back():
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
    row = build_event(AlertInProgress(changed), 1, "dedupe")

    assert parse_options(row.alert["options"]) == changed.options
    assert (
        parse_options(build_event(AlertInProgress(alert()), 1, None).alert.get("options")) == alert().options
    )


def test_each_alert_sees_what_the_earlier_ones_did():
    (segment_of_all,) = build_segments()
    levels = (AlertType.CRITICAL, AlertType.RESOLVED, AlertType.CRITICAL)
    alerts = [
        replace(alert(level, number=n), accepted_at=NOON + n * MINUTE) for n, level in enumerate(levels)
    ]
    where = state(RULES_WITH_PAST)

    events = run_stages([AlertInProgress(each) for each in alerts], segment_of_all, where).events

    assert [event.suppressed for event in events] == [False, True, True]
