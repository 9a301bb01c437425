"""Load the state of a locked service for a decision: its configuration, entities and open incidents."""

from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime

from models.domain.enums import Collation, RuleAction
from models.load.incidents import (
    count_firing,
    load_entities,
    load_groups,
    load_open_children,
    load_open_incidents,
    load_responders,
    load_roles,
)
from models.load.oncall_config import load_next_targets
from models.store.base import store
from models.tables.services import Service
from pipeline.lane_state import LaneKey, LaneState, split_keys
from schedules.escalation.notifications import LATE_AFTER
from workers import config_cache


def load(
    service: Service,
    keys: Collection[LaneKey],
    locked: Collection[int] = (),
    *,
    accepted_at: datetime | None = None,
    now: datetime | None = None,
) -> LaneState:
    """Load the state for decisions about these entities and values, in a constant number of queries.

    `locked` are the row numbers of the locked services. `accepted_at` is the time of the earliest decision;
    None: now. `now` replaces the clock of the database.
    """
    config = config_cache.get_lane_config(service, accepted_at)
    facts = config.facts
    processed_at = None if accepted_at is None else _get_work_time(accepted_at, now)
    if processed_at is not None:
        facts = replace(facts, config=replace(facts.config, processed_at=processed_at))
    entity_keys, group_keys = split_keys(keys)
    entities, ended = load_entities(entity_keys)
    groups = (
        load_groups({key.digest for key in group_keys}, accepted_at or store().now()) if group_keys else ()
    )
    incidents = load_open_incidents(
        service.id,
        {entity.incident for entity in entities if entity.incident}.union(
            unique_id for _, unique_id in groups
        ),
        collecting=service.collation == Collation.TIME_BASED,
    )
    round_robins = facts.config.round_robins
    return LaneState(
        facts,
        entities,
        [*load_open_children(incidents), *incidents],
        count_firing(incidents),
        rulesets=config.rulesets,
        past_incidents=ended,
        loaded_keys=keys,
        groups=groups,
        responders=load_responders(incidents) if RuleAction.ADD_RESPONDER in config.action_types else (),
        roles=load_roles(incidents) if RuleAction.ASSIGN_ROLE in config.action_types else {},
        locked=locked,
        next_targets=load_next_targets(round_robins) if round_robins else {},
    )


def get_rows(state: LaneState) -> dict[str, int]:
    """Return the row numbers of the incidents that a decision on this state may refer to, by unique_id."""
    rows = {
        incident.unique_id: incident.row for incident in state.incidents.values() if incident.row is not None
    }
    return rows | {unique_id: past.row for unique_id, past in state.past_incidents.items()}


def _get_work_time(accepted_at: datetime, now: datetime | None) -> datetime | None:
    """Return the time of processing, or None if all alerts of the batch are new.

    Ask the database for its clock only if the clock of this host does not show that they are new.
    """
    if now is None:
        if abs(datetime.now(UTC) - accepted_at) <= LATE_AFTER:
            return None
        now = store().now()
    return now
