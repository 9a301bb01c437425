"""What lanes know of the configuration, kept while its version stands (design, section 5).

The version is read after the lane's row is locked and its batch is taken, so a change of configuration
holds for every alert that was accepted after the answer to that change.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Generic, TypeVar

from models.domain.effects import IncidentState
from models.domain.facts import LaneFacts, OnCallConfig
from models.load.lane import (
    ConfigKeys,
    build_service,
    get_router_version,
    get_team_version,
    load_incident_config,
    load_lane,
    load_router,
)
from models.tables.routers import GlobalRouter
from models.tables.services import Service
from pipeline.router import CompiledRouter
from pipeline.rules.rulesets import RuleSet

# Lanes whose configuration is kept; a lane that was not heard of for long is read again.
CACHE_SIZE = 2_000

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LaneConfig:
    """A service's facts, the rules of its integrations, compiled, and the types of all their actions."""

    facts: LaneFacts
    rulesets: Mapping[int, RuleSet]
    action_types: frozenset[int] = frozenset()


class Cache(Generic[T]):
    """The latest of each row, by the version at which it was read. Shared between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_row: OrderedDict[Hashable, tuple[int, T]] = OrderedDict()

    def get(self, row: Hashable, version: int, read: Callable[[], T]) -> T:
        with self._lock:
            cached = self._by_row.get(row)
            if cached is not None and cached[0] == version:
                self._by_row.move_to_end(row)
                return cached[1]
        # What is read now is of this version or a later one, and then it is read again next time.
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


def get_lane_config(service: Service, at: datetime | None = None) -> LaneConfig:
    """What a locked service's lane knows, for alerts of this moment (None: now) and later ones; the service
    itself is told anew each time."""
    cached = _lane_cache.get(
        service.id, get_team_version(service.team_id), lambda: _load_lane_config(service, at)
    )
    service_now = build_service(service, cached.facts.service.account)
    return replace(cached, facts=replace(cached.facts, service=service_now))


def _load_lane_config(service: Service, at: datetime | None) -> LaneConfig:
    facts = load_lane(service, at)
    rules = [rule for group in facts.rules.values() for rule in group]
    action_types = frozenset(action["action_type"] for rule in rules for action in rule.actions)
    return LaneConfig(facts, {row: RuleSet(rules) for row, rules in facts.rules.items()}, action_types)


def get_routing(router: GlobalRouter) -> CompiledRouter:
    """What a locked router's lane knows."""
    return _router_cache.get(
        router.id, get_router_version(router), lambda: CompiledRouter(load_router(router))
    )


def get_oncall_configs(
    incidents: Iterable[IncidentState], at: datetime | None = None
) -> dict[int, OnCallConfig]:
    """Whom these incidents may name, by their team, for decisions about this moment (None: now) and later
    ones. Incidents of one service are of one team, unless it went to another."""
    by_team: dict[int, list[IncidentState]] = {}
    for incident in incidents:
        by_team.setdefault(incident.team, []).append(incident)
    return {team: _get_oncall_config(ConfigKeys.from_incidents(group), at) for team, group in by_team.items()}


def _get_oncall_config(needed: ConfigKeys, at: datetime | None) -> OnCallConfig:
    return _config_cache.get(needed, get_team_version(needed.team), lambda: load_incident_config(needed, at))


def clear() -> None:
    """Read everything anew; for a process that turns to another store."""
    _lane_cache.clear()
    _router_cache.clear()
    _config_cache.clear()
