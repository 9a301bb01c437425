"""Cache the configuration that lanes need, until its version changes (design, section 5).

A worker reads the version after it locked the lane's row and took a batch. So a change of configuration
applies to every alert that was accepted after the answer to that change.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar

from models.domain.effects import IncidentState
from models.domain.facts import LaneFacts, OnCallConfig
from models.domain.values import replace
from models.load.lane import (
    ConfigKeys,
    build_service,
    get_router_version,
    get_team_version,
    get_team_versions,
    load_incident_config,
    load_lane,
    load_router,
)
from models.tables.routers import GlobalRouter
from models.tables.services import Service
from pipeline.router import CompiledRouter
from pipeline.rules.rulesets import RuleSet

# Number of cached rows per cache; the row that was unused for the longest time is dropped first.
CACHE_SIZE = 2_000

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LaneConfig:
    """The facts of a service, the compiled rules by integration, and the types of all actions in them."""

    facts: LaneFacts
    rulesets: Mapping[int, RuleSet]
    action_types: frozenset[int] = frozenset()


class Cache(Generic[T]):
    """The latest value per row, with the version at which it was read. Shared between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_row: OrderedDict[Hashable, tuple[int, T]] = OrderedDict()

    def get(self, row: Hashable, version: int, read: Callable[[], T]) -> T:
        with self._lock:
            cached = self._by_row.get(row)
            if cached is not None and cached[0] == version:
                self._by_row.move_to_end(row)
                return cached[1]
        # The value may be of a later version than the key says; then the next call reads it again.
        value = read()
        with self._lock:
            self._by_row[row] = (version, value)
            self._by_row.move_to_end(row)
            if len(self._by_row) > CACHE_SIZE:
                self._by_row.popitem(last=False)
        return value

    def clear(self) -> None:
        with self._lock:
            self._by_row.clear()


_lane_cache: Cache[LaneConfig] = Cache()
_router_cache: Cache[CompiledRouter] = Cache()
_config_cache: Cache[OnCallConfig] = Cache()


def get_lane_configs(lanes: Iterable[tuple[Service, datetime | None]]) -> list[LaneConfig]:
    """Return the configuration for the lane of each of these locked services, by one query for the versions.

    A result is valid for alerts accepted at the given time (None: now) or later. The facts of the service
    itself are not cached, but built from its locked row each time.
    """
    listed = list(lanes)
    versions = get_team_versions({service.team_id for service, _ in listed})
    return [_get_lane_config(service, at, versions.get(service.team_id, -1)) for service, at in listed]


def get_lane_config(service: Service, at: datetime | None = None) -> LaneConfig:
    """Return the configuration for the lane of one locked service, as above."""
    return get_lane_configs([(service, at)])[0]


def _get_lane_config(service: Service, at: datetime | None, version: int) -> LaneConfig:
    # SQLite uses the row number of a deleted service again.
    row = (service.id, service.unique_id)
    cached = _lane_cache.get(row, version, lambda: _load_lane_config(service, at))
    service_now = build_service(service, cached.facts.service.account)
    return replace(cached, facts=replace(cached.facts, service=service_now))


def _load_lane_config(service: Service, at: datetime | None) -> LaneConfig:
    facts = load_lane(service, at)
    rules = [rule for group in facts.rules.values() for rule in group]
    action_types = frozenset(action["action_type"] for rule in rules for action in rule.actions)
    return LaneConfig(facts, {row: RuleSet(rules) for row, rules in facts.rules.items()}, action_types)


def get_routing(router: GlobalRouter) -> CompiledRouter:
    """Return the compiled rules for the lane of a locked router."""
    return _router_cache.get(
        router.id, get_router_version(router), lambda: CompiledRouter(load_router(router))
    )


def get_oncall_configs(
    incidents: Iterable[IncidentState], at: datetime | None = None
) -> dict[int, OnCallConfig]:
    """Return the on-call config by team, for decisions about these incidents at `at` (None: now) or later.

    Incidents of one service belong to one team, unless the service was moved to another team.
    """
    by_team: dict[int, list[IncidentState]] = {}
    for incident in incidents:
        by_team.setdefault(incident.team, []).append(incident)
    return {team: _get_oncall_config(ConfigKeys.from_incidents(group), at) for team, group in by_team.items()}


def _get_oncall_config(needed: ConfigKeys, at: datetime | None) -> OnCallConfig:
    return _config_cache.get(needed, get_team_version(needed.team), lambda: load_incident_config(needed, at))


def clear() -> None:
    """Empty all caches, for a process that connects to another database."""
    _lane_cache.clear()
    _router_cache.clear()
    _config_cache.clear()
