"""What a locked service's lane is decided upon: its configuration, entities and open incidents, from rows."""

from models.enums import Collation
from models.loading import entity_states, firing_counts, open_incidents
from models.services import Service
from pipeline.state import Key, LaneState, Past
from workers import configuration


def load(service: Service, keys: set[Key]) -> LaneState:
    """The state around these entities, in a constant number of queries."""
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
        incidents,
        firing_counts(incidents),
        rulesets=known.rulesets,
        past={one.unique_id: Past(one.row, one.ended_at) for one in ended},
        asked=keys,
    )


def rows_of(state: LaneState) -> dict[str, int]:
    """Row numbers of the incidents that a decision on this state may refer to, by unique_id."""
    known = {i.unique_id: i.row for i in state.incidents.values() if i.row is not None}
    return known | {unique_id: past.row for unique_id, past in state.past.items()}
