"""What a locked service's lane is decided upon: its configuration, entities and open incidents, from rows."""

from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime

from models.base import store
from models.directories import turns_of
from models.enums import Collation, RuleAction
from models.incident_states import (
    assigned_roles,
    called_responders,
    entity_states,
    firing_counts,
    open_children,
    open_incidents,
)
from models.services import Service
from pipeline.state import Key, LaneState, Past
from schedules.notices import LATE
from workers import configuration


def load(
    service: Service,
    keys: set[Key],
    locked: Collection[int] = (),
    *,
    accepted_at: datetime | None = None,
    now: datetime | None = None,
) -> LaneState:
    """The state around these entities, in a constant number of queries; `locked` are rows of services.

    `accepted_at` is the earliest moment that is decided about, None for now; `now` is the store's clock,
    unless it is given.
    """
    known = configuration.of_service(service, accepted_at)
    facts = known.facts
    worked_at = None if accepted_at is None else _worked_at(accepted_at, now)
    if worked_at is not None:
        facts = replace(facts, directory=replace(facts.directory, worked_at=worked_at))
    entities, ended = entity_states(keys)
    incidents = open_incidents(
        service.id,
        {entity.incident for entity in entities if entity.incident},
        collecting=service.collation == Collation.TIME_BASED,
    )
    return LaneState(
        facts,
        entities,
        [*open_children(incidents), *incidents],
        firing_counts(incidents),
        rulesets=known.rulesets,
        past={one.unique_id: Past(one.row, one.ended_at) for one in ended},
        asked=keys,
        called=called_responders(incidents) if RuleAction.ADD_RESPONDER in known.acts else (),
        roles=assigned_roles(incidents) if RuleAction.ASSIGN_ROLE in known.acts else {},
        locked=locked,
        turns=turns_of(facts.directory),
    )


def rows_of(state: LaneState) -> dict[str, int]:
    """Row numbers of the incidents that a decision on this state may refer to, by unique_id."""
    known = {i.unique_id: i.row for i in state.incidents.values() if i.row is not None}
    return known | {unique_id: past.row for unique_id, past in state.past.items()}


def _worked_at(accepted_at: datetime, now: datetime | None) -> datetime | None:
    """The moment of the work; None where all that is decided about is new. The store is asked for its clock
    where this host's does not show that it is."""
    if now is None:
        if abs(datetime.now(UTC) - accepted_at) <= LATE:
            return None
        now = store().now()
    return now
