"""Dedupe decides whether an alert is new or belongs to something open."""

from datetime import timedelta

import pytest

from models.domain.effects import EntityState, SaveEntity, SaveIncident
from models.domain.enums import AlertType, Collation, IncidentStatus, ServiceStatus
from models.domain.facts import WindowFacts
from models.domain.reasons import Reason, make_reason
from models.domain.values import replace
from pipeline.lane_state import LaneState
from pipeline.stages import dedupe
from tests.support.facts import MINUTE, NOON, alert, incident, lane

OPEN_ENTITY = EntityState(7, "db1", firing=True, incident="incident-1")
RESOLVED = EntityState(7, "db1", resolved_source_at=NOON, resolved_at=NOON)
DISABLED = ServiceStatus.DISABLED
NEW = make_reason("entity_is_new")
SUPPRESSED = make_reason("suppressed")
NOTHING_TO_RESOLVE = make_reason("nothing_to_resolve")
ACKNOWLEDGED = incident(status=IncidentStatus.ACKNOWLEDGED)


def decide(incoming, *, entities=(), incidents=(), firing=None, facts=None):
    state = LaneState(facts or lane(), entities, incidents, firing)
    return dedupe.decide(incoming, state, incoming.accepted_at)


@pytest.mark.parametrize(
    ("incoming", "world", "reason"),
    [
        (alert(), {}, NEW),
        (alert(), {"entities": [OPEN_ENTITY], "incidents": [incident()]}, make_reason("entity_has_incident")),
        (alert(entity_id="db2"), {"entities": [OPEN_ENTITY], "incidents": [incident()]}, NEW),
        (alert(AlertType.RESOLVED), {}, NOTHING_TO_RESOLVE),
        (alert(AlertType.ACKNOWLEDGED), {}, make_reason("nothing_to_acknowledge")),
        (
            alert(AlertType.RESOLVED),
            {"entities": [OPEN_ENTITY], "incidents": [incident()], "firing": {"incident-1": 1}},
            make_reason("resolves_incident"),
        ),
        (
            alert(AlertType.RESOLVED),
            {"entities": [OPEN_ENTITY], "incidents": [incident()], "firing": {"incident-1": 3}},
            make_reason("others_firing", count=2),
        ),
        (
            alert(AlertType.ACKNOWLEDGED),
            {"entities": [OPEN_ENTITY], "incidents": [incident()]},
            make_reason("acknowledges_incident"),
        ),
        (
            alert(AlertType.ACKNOWLEDGED),
            {"entities": [OPEN_ENTITY], "incidents": [ACKNOWLEDGED]},
            make_reason("acknowledged_already"),
        ),
        (alert(suppressed=True), {}, SUPPRESSED),
        (alert(), {"facts": lane(status=DISABLED)}, make_reason("service_disabled", service="Checkout")),
        (
            alert(),
            {"facts": lane(under_maintenance=True)},
            make_reason("service_under_maintenance", service="Checkout"),
        ),
    ],
    ids=lambda value: value.code if isinstance(value, Reason) else "",
)  # fmt: skip
def test_a_decision_has_its_reason(incoming, world, reason):
    assert decide(incoming, **world).reason == reason


def test_an_alert_under_maintenance_is_stored_as_suppressed():
    assert decide(alert(), facts=lane(under_maintenance=True)).alert.suppressed


DEPLOY = replace(lane(), windows=(WindowFacts("window-1", "Deploy", NOON, NOON + 60 * MINUTE),))


@pytest.mark.parametrize(
    ("incoming", "reason"),
    [
        (alert(at=NOON - MINUTE), NEW),
        (
            alert(at=NOON),
            make_reason("window_until", window="Deploy", until=(NOON + 60 * MINUTE).isoformat()),
        ),
        (alert(at=NOON + 60 * MINUTE), NEW),
        (replace(alert(at=NOON), released_at=NOON + 60 * MINUTE), NEW),
        (alert(AlertType.RESOLVED), NOTHING_TO_RESOLVE),
        (alert(suppressed=True), SUPPRESSED),
    ],
    ids=["before", "within", "after", "released", "resolved", "suppressed"],
)
def test_a_maintenance_window_defers_alerts_during_the_window(incoming, reason):
    state = LaneState(DEPLOY)

    assert dedupe.decide(incoming, state, incoming.effective_at).reason == reason


@pytest.mark.parametrize(
    ("level", "entity", "deferred_alert"),
    [
        (AlertType.CRITICAL, None, "event-0"),
        (AlertType.CRITICAL, OPEN_ENTITY, "event-0"),
        (AlertType.WARNING, None, None),
        (AlertType.INFO, OPEN_ENTITY, None),
        (AlertType.RESOLVED, replace(OPEN_ENTITY, deferred_alert="event-9"), None),
    ],
    ids=["new", "of an open incident", "level without incidents", "info", "resolved"],
)
def test_an_entity_stores_the_deferred_alert_that_would_notify_people(level, entity, deferred_alert):
    world = {"entities": [entity], "incidents": [incident()], "firing": {"incident-1": 1}} if entity else {}
    decision = decide(alert(level), facts=DEPLOY, **world)

    saved = [effect.entity.deferred_alert for effect in decision.effects if isinstance(effect, SaveEntity)]
    assert (saved[-1] if saved else None) == deferred_alert


@pytest.mark.parametrize(
    ("reported_at", "accepted_at", "continues"),
    [
        (NOON - MINUTE, NOON + MINUTE, False),
        (NOON, NOON + MINUTE, True),
        (NOON + MINUTE, NOON + MINUTE, True),
        (None, NOON + MINUTE, True),
        (NOON - MINUTE, NOON + timedelta(hours=1), False),
        (NOON - MINUTE, NOON + timedelta(hours=1, seconds=1), True),
    ],
    ids=["older", "equal", "newer", "no time", "just within the hour", "after the hour"],
)
def test_a_trigger_older_than_the_last_resolve_does_not_page(reported_at, accepted_at, continues):
    late = alert(source_at=reported_at, at=accepted_at)

    assert decide(late, entities=[RESOLVED]).continues is continues


def test_a_resolve_with_a_future_time_counts_from_its_acceptance():
    decision = decide(alert(AlertType.RESOLVED, source_at=NOON + timedelta(days=1)))

    (saved,) = [effect.entity for effect in decision.effects if isinstance(effect, SaveEntity)]
    assert saved.resolved_source_at == NOON


def test_a_resolve_without_a_source_time_never_mutes():
    decision = decide(alert(AlertType.RESOLVED))

    (saved,) = [effect.entity for effect in decision.effects if isinstance(effect, SaveEntity)]
    assert saved.resolved_source_at is None


COLLATING = incident(collecting=True)


@pytest.mark.parametrize(
    ("minutes", "level", "collation", "joins"),
    [
        (0, AlertType.CRITICAL, Collation.TIME_BASED, True),
        (10, AlertType.CRITICAL, Collation.TIME_BASED, True),
        (11, AlertType.CRITICAL, Collation.TIME_BASED, False),
        (0, AlertType.WARNING, Collation.TIME_BASED, False),
        (0, AlertType.CRITICAL, Collation.OFF, False),
    ],
)
def test_collation_collects_alerts_for_some_minutes_after_the_incidents_creation(
    minutes, level, collation, joins
):
    other = alert(level, "db2", at=NOON + minutes * MINUTE)
    facts = lane(collation=collation, collation_minutes=10)
    decision = decide(other, incidents=[COLLATING], facts=facts)

    assert (decision.incident == "incident-1") is joins


def test_resolving_an_incident_changes_it_once():
    decision = decide(
        alert(AlertType.RESOLVED), entities=[OPEN_ENTITY], incidents=[incident()], firing={"incident-1": 1}
    )

    saved = [effect.incident for effect in decision.effects if isinstance(effect, SaveIncident)]
    assert [one.status for one in saved] == [IncidentStatus.RESOLVED]
