"""What a locked service's lane is decided upon: its configuration, entities and open incidents, from rows."""

from collections.abc import Collection

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
from workers import configuration


def load(service: Service, keys: set[Key], locked: Collection[int] = ()) -> LaneState:
    """The state around these entities, in a constant number of queries; `locked` are rows of services."""
    known = configuration.of_service(service)
    entities, ended = entity_states(keys)
    incidents = open_incidents(
        service.id,
        {entity.incident for entity in entities if entity.incident},
        collecting=service.collation == Collation.TIME_BASED,
    )
    return LaneState(
        known.facts,
        entities,
        [*open_children(incidents), *incidents],
        firing_counts(incidents),
        rulesets=known.rulesets,
        past={one.unique_id: Past(one.row, one.ended_at) for one in ended},
        asked=keys,
        called=called_responders(incidents) if RuleAction.ADD_RESPONDER in known.acts else (),
        roles=assigned_roles(incidents) if RuleAction.ASSIGN_ROLE in known.acts else {},
        locked=locked,
    )


def rows_of(state: LaneState) -> dict[str, int]:
    """Row numbers of the incidents that a decision on this state may refer to, by unique_id."""
    known = {i.unique_id: i.row for i in state.incidents.values() if i.row is not None}
    return known | {unique_id: past.row for unique_id, past in state.past.items()}
