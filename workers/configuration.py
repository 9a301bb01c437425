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

from models.effects import IncidentState
from models.facts import Directory, LaneFacts
from models.loading import (
    Needed,
    directory_for,
    lane_facts,
    router_facts,
    service_facts,
    version_for_router,
    version_for_team,
)
from models.routers import GlobalRouter
from models.services import Service
from pipeline.routing import Routing
from pipeline.rulesets import RuleSet

# Lanes whose configuration is kept; a lane that was not heard of for long is read again.
LANES_KEPT = 2_000

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LaneKnowledge:
    """A service's facts, the rules of its integrations, compiled, and the types of all their actions."""

    facts: LaneFacts
    rulesets: Mapping[int, RuleSet]
    acts: frozenset[int] = frozenset()


class Kept(Generic[T]):
    """The latest of each row, by the version at which it was read. Shared between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_row: OrderedDict[Hashable, tuple[int, T]] = OrderedDict()

    def get(self, row: Hashable, version: int, read: Callable[[], T]) -> T:
        with self._lock:
            kept = self._by_row.get(row)
            if kept is not None and kept[0] == version:
                self._by_row.move_to_end(row)
                return kept[1]
        # What is read now is of this version or a later one, and then it is read again next time.
        value = read()
        with self._lock:
            self._by_row[row] = (version, value)
            self._by_row.move_to_end(row)
            if len(self._by_row) > LANES_KEPT:
                self._by_row.popitem(last=False)
        return value

    def forget(self) -> None:
        with self._lock:
            self._by_row.clear()


_lanes: Kept[LaneKnowledge] = Kept()
_routers: Kept[Routing] = Kept()
_directories: Kept[Directory] = Kept()


def of_service(service: Service, at: datetime | None = None) -> LaneKnowledge:
    """What a locked service's lane knows, for alerts of this moment (None: now) and later ones; the service
    itself is told anew each time."""
    known = _lanes.get(service.id, version_for_team(service.team_id), lambda: _read(service, at))
    fresh = service_facts(service, known.facts.service.account)
    return replace(known, facts=replace(known.facts, service=fresh))


def _read(service: Service, at: datetime | None) -> LaneKnowledge:
    facts = lane_facts(service, at)
    rules = [rule for some in facts.rules.values() for rule in some]
    acts = frozenset(action["action_type"] for rule in rules for action in rule.actions)
    return LaneKnowledge(facts, {row: RuleSet(rules) for row, rules in facts.rules.items()}, acts)


def of_router(router: GlobalRouter) -> Routing:
    """What a locked router's lane knows."""
    return _routers.get(router.id, version_for_router(router), lambda: Routing(router_facts(router)))


def of_incidents(incidents: Iterable[IncidentState], at: datetime | None = None) -> dict[int, Directory]:
    """Whom these incidents may name, by their team, for decisions about this moment (None: now) and later
    ones. Incidents of one service are of one team, unless it went to another."""
    by_team: dict[int, list[IncidentState]] = {}
    for one in incidents:
        by_team.setdefault(one.team, []).append(one)
    return {team: _directory(Needed.by(own), at) for team, own in by_team.items()}


def _directory(needed: Needed, at: datetime | None) -> Directory:
    return _directories.get(needed, version_for_team(needed.team), lambda: directory_for(needed, at))


def forget() -> None:
    """Read everything anew; for a process that turns to another store."""
    _lanes.forget()
    _routers.forget()
    _directories.forget()
