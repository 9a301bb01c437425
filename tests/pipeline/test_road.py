"""The fold over a segment: what waits where, what is taken up again, what is asked for."""

from dataclasses import replace

import pytest

from models.effects import EntityState
from models.enums import AlertType, RuleAction, WorkState
from pipeline.road import Traveller, plan_of, row_of, walk
from pipeline.rulesets import RuleSet
from pipeline.state import LaneState, Past
from pipeline.topology import segments
from tests.facts import MINUTE, NOON, alert, incident, lane
from tests.rules import action, rule_facts, var

A = RuleAction
PLAIN = RuleSet([rule_facts(action(A.CHANGE_MESSAGE, "changed"))])
RECENT = RuleSet([rule_facts(action(A.SUPPRESS), when={"<": [var("seconds_since_last"), 600]})])
RACK = RuleSet([rule_facts(action(A.CHANGE_ENTITY_ID, "rack"))])


def state(rules, *entities, asked=None, past=None):
    known = [EntityState(7, name, last_incident=last) for name, last in entities]
    return LaneState(lane(), known, rulesets={7: rules}, asked=asked, past=past or {})


def one(segment, where, traveller=None):
    (event,) = walk([traveller or Traveller(alert())], segment, where).events
    return event


def stages(event):
    return [stage for stage, _ in event.reasons]


WHOLE = ["normalize", "route", "rules", "dedupe", "incident", "notify"]


@pytest.mark.parametrize("rules", [PLAIN, RECENT], ids=["plain", "looks back"])
def test_an_uncut_road_is_walked_to_its_end(rules):
    (whole,) = segments()
    event = one(whole, state(rules))

    assert stages(event) == WHOLE
    assert (event.stage, event.state) == ("", WorkState.DONE)


def test_a_cut_road_waits_at_the_next_segment():
    first, _ = segments(["rules"])
    event = one(first, state(PLAIN))

    assert stages(event) == ["normalize", "route", "rules"]
    assert (event.stage, event.state, event.message) == ("dedupe", WorkState.WAITING, "changed")
    assert "next" not in event.alert


@pytest.mark.parametrize(
    "cuts", [("rules",), ("normalize", "rules"), ("normalize", "route", "rules"), ("route", "rules")]
)
def test_rules_that_look_back_wait_for_the_last_segment_where_the_past_is_known(cuts):
    *before, last = segments(cuts)
    where = state(RECENT, ("db1", "incident-0"), past={"incident-0": Past(5, NOON - MINUTE)})
    traveller = Traveller(alert())
    for segment in before:
        event = one(segment, where, traveller)
        taken_up = event.alert.get("next") or event.stage
        traveller = Traveller(traveller.alert, event.reasons, event.rules, taken_up)

    assert (event.stage, event.alert["next"]) == ("dedupe", "rules")
    assert stages(event) == ["normalize", "route"]
    ended = one(last, where, traveller)
    assert stages(ended) == ["normalize", "route", "rules", "dedupe"]
    assert (ended.suppressed, ended.stage, ended.state) == (True, "", WorkState.DONE)
    assert "next" not in ended.alert


def test_rules_that_look_back_decide_where_the_road_is_not_cut_behind_them():
    first, last = segments(["normalize"])
    event = one(first, state(RECENT))

    assert event.stage == "route"
    assert stages(one(last, state(RECENT), Traveller(alert(), event.reasons))) == WHOLE


def test_an_alert_that_a_router_sent_goes_on_behind_the_routing():
    (whole,) = segments()
    event = one(whole, state(PLAIN), Traveller(alert(), (("normalize", "x"), ("route", "y")), next="rules"))

    assert stages(event) == WHOLE


def test_entities_that_nobody_looked_for_are_asked_for():
    (whole,) = segments()
    where = state(RACK, asked={(7, "db1")})
    one(whole, where)

    assert where.missing == {(7, "rack")}


def test_nothing_is_asked_for_that_was_looked_for_and_is_not_there():
    (whole,) = segments()
    where = state(RACK, asked={(7, "db1"), (7, "rack")})
    one(whole, where)

    assert where.missing == set()


def test_the_history_of_an_entity_that_a_rule_names_is_asked_for():
    both = RuleSet([*(rule.facts for rule in RACK.rules), *(rule.facts for rule in RECENT.rules)])
    where = state(both, asked={(7, "db1")})
    where.facts = lane(create_incidents_for=0)
    (whole,) = segments()
    one(whole, where)

    assert (7, "rack") in where.missing


@pytest.mark.parametrize(
    ("entity", "incidents", "past", "expected"),
    [
        (EntityState(7, "db1"), [], {}, None),
        (EntityState(7, "db1", last_incident="gone"), [], {}, None),
        (EntityState(7, "db1", last_incident="old"), [], {"old": Past(9, NOON - 2 * MINUTE)}, 120),
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
        (EntityState(7, "db1", last_incident="old"), [], {"old": Past(9, NOON + MINUTE)}, 0),
    ],
    ids=["none", "deleted", "over", "open", "over in this batch", "in the future"],
)
def test_seconds_count_from_the_end_of_the_last_incident_or_from_the_beginning_of_an_open_one(
    entity, incidents, past, expected
):
    where = LaneState(lane(), [entity], incidents, past=past)

    assert where.seconds_since_last(alert(), NOON) == expected


def test_a_plan_is_kept_in_the_alerts_row_and_read_back():
    changed = alert().wanting(
        escalation_policy=1,
        assigned_to="bob",
        urgency=0,
        sla=2,
        team_priority=3,
        delay_s=60,
        notes=("n",),
        tags=(4,),
    )
    row = row_of(Traveller(changed), 1, "dedupe")

    assert plan_of(row.alert["plan"]) == changed.plan
    assert plan_of(row_of(Traveller(alert()), 1, None).alert.get("plan")) == alert().plan


def test_each_alert_sees_what_the_earlier_ones_did():
    (whole,) = segments()
    levels = (AlertType.CRITICAL, AlertType.RESOLVED, AlertType.CRITICAL)
    alerts = [
        replace(alert(level, number=n), accepted_at=NOON + n * MINUTE) for n, level in enumerate(levels)
    ]
    where = state(RECENT)

    events = walk([Traveller(each) for each in alerts], whole, where).events

    assert [event.suppressed for event in events] == [False, True, True]
