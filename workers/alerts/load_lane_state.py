"""Load the states of locked services for decisions: their configuration, entities and open incidents."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from itertools import chain

from models.domain.enums import Collation, RuleAction
from models.domain.facts import GroupKey
from models.domain.values import replace
from models.load.incident_states import (
    count_firing,
    load_entities,
    load_groups,
    load_open_children,
    load_open_incidents,
    load_responders,
    load_roles,
)
from models.load.oncall_config import load_next_targets
from models.store.store import store
from models.tables.services import Service
from pipeline.lane_state import LaneKey, LaneState, split_keys
from schedules.escalation.person_notifications import LATE_AFTER
from workers import config_cache
from workers.config_cache import LaneConfig


@dataclass(frozen=True, slots=True)
class LaneRequest:
    """The lane of a locked service, and what decisions look up in it.

    `accepted_at` is the time of the earliest decision; None: now. `locked` are the row numbers of the
    services whose incidents the decisions may change.
    """

    service: Service
    keys: Collection[LaneKey]
    accepted_at: datetime | None = None
    locked: Collection[int] = ()


def load(
    service: Service,
    keys: Collection[LaneKey],
    locked: Collection[int] = (),
    *,
    accepted_at: datetime | None = None,
    now: datetime | None = None,
) -> LaneState:
    """Load the state for decisions about these entities and values of one lane, as load_states()."""
    return load_states([LaneRequest(service, keys, accepted_at, locked)], now)[0]


def load_states(requests: Sequence[LaneRequest], now: datetime | None = None) -> list[LaneState]:
    """Load the state of each of these lanes, in a number of queries that does not depend on their number.

    `now` replaces the clock of the database.
    """
    configs = config_cache.get_lane_configs((each.service, each.accepted_at) for each in requests)
    shared = _SharedRows(requests, configs)
    read_clock = cache(lambda: now or store().now())
    return [
        shared.build_state(request, config, _get_work_time(request.accepted_at, now, read_clock))
        for request, config in zip(requests, configs, strict=True)
    ]


class _SharedRows:
    """The rows that the decisions of all lanes need. Each kind of row is loaded by one query."""

    def __init__(self, requests: Sequence[LaneRequest], configs: Sequence[LaneConfig]) -> None:
        entity_keys, group_keys = split_keys(chain.from_iterable(request.keys for request in requests))
        self._entities, self._ended = load_entities(entity_keys)
        self._groups = _load_groups(group_keys, requests)
        holders = {entity.incident for entity in self._entities if entity.incident}
        collecting = [each.service.id for each in requests if each.service.collation == Collation.TIME_BASED]
        self._incidents = load_open_incidents(
            holders.union(unique_id for _, unique_id in self._groups), collecting
        )
        self._children = load_open_children(self._incidents)
        self._firing_counts = count_firing(self._incidents)
        types = set[int]().union(*(config.action_types for config in configs))
        self._responders = load_responders(self._incidents) if RuleAction.ADD_RESPONDER in types else set()
        self._roles = load_roles(self._incidents) if RuleAction.ASSIGN_ROLE in types else {}
        round_robins = {row for config in configs for row in config.facts.config.round_robins}
        self._next_targets = load_next_targets(round_robins) if round_robins else {}

    def build_state(
        self,
        request: LaneRequest,
        config: LaneConfig,
        processed_at: datetime | None,
    ) -> LaneState:
        """Build the state of one lane from its part of the rows."""
        facts = config.facts
        if processed_at is not None:
            facts = replace(facts, config=replace(facts.config, processed_at=processed_at))
        entity_keys, group_keys = split_keys(request.keys)
        integrations = {integration for integration, _ in entity_keys}
        entities = [each for each in self._entities if each.integration in integrations]
        digests = {key.digest for key in group_keys}
        groups = [(digest, unique_id) for digest, unique_id in self._groups if digest in digests]
        expected = {each.incident for each in entities}.union(unique_id for _, unique_id in groups)
        incidents = [
            each
            for each in self._incidents
            if each.unique_id in expected or (each.collecting and each.service == request.service.id)
        ]
        ids, rows = {each.unique_id for each in incidents}, {each.row for each in incidents}
        return LaneState(
            facts,
            entities,
            [*(child for child in self._children if child.parent in rows), *incidents],
            {unique_id: count for unique_id, count in self._firing_counts.items() if unique_id in ids},
            rulesets=config.rulesets,
            past_incidents={
                each.last_incident: self._ended[each.last_incident]
                for each in entities
                if each.last_incident in self._ended
            },
            loaded_keys=request.keys,
            groups=groups,
            responders=(each for each in self._responders if each[0] in ids),
            roles={key: user for key, user in self._roles.items() if key[0] in ids},
            locked=request.locked,
            next_targets=self._next_targets,
        )


def _load_groups(keys: Collection[GroupKey], requests: Iterable[LaneRequest]) -> Collection[tuple[str, str]]:
    """Load the open incidents of these values that are young enough for the earliest decision."""
    if not keys:
        return ()
    times = [each.accepted_at for each in requests if each.accepted_at is not None]
    return load_groups({key.digest for key in keys}, min(times) if times else store().now())


def get_rows(state: LaneState) -> dict[str, int]:
    """Return the row numbers of the incidents that a decision on this state may refer to, by unique_id."""
    rows = {
        incident.unique_id: incident.row for incident in state.incidents.values() if incident.row is not None
    }
    return rows | {unique_id: past.row for unique_id, past in state.past_incidents.items()}


def _get_work_time(
    accepted_at: datetime | None, now: datetime | None, read_clock: Callable[[], datetime]
) -> datetime | None:
    """Return the time of processing, or None if all alerts of the batch are new.

    Ask the database for its clock only if the clock of this host does not show that they are new.
    """
    if accepted_at is None or (now is None and abs(datetime.now(UTC) - accepted_at) <= LATE_AFTER):
        return None
    return read_clock()
