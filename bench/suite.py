"""The whole comparison: which plans run on which target, one target after the other."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace

from bench.calm import Flood, Idle, QuietKey, idle, quiet_key
from bench.instance import NotUp
from bench.load import NobodyAnswers
from bench.peers import PEERS, Absent
from bench.postgres import NoServer, version
from bench.run import Figures, Lost, Plan, Target, measure
from bench.tocsin import Tocsin, on_postgres, on_sqlite

# Names by which the budgets find their runs.
LIGHT, UNIQUE, STORM, STORM_16 = "light load", "unique", "storm", "storm, 16 connections"
POSTGRES, SQLITE = "Tocsin, PostgreSQL", "Tocsin, SQLite"

_STORM = Plan(STORM, 20_000, 200)
_LIGHT = Plan(LIGHT, 200, 200, connections=8, rate=20)

OURS: dict[str, Sequence[Plan]] = {
    POSTGRES: (
        _LIGHT,
        Plan(UNIQUE, 20_000, 20_000),
        _STORM,
        Plan(STORM_16, 6_000, 200, connections=16),
    ),
    SQLITE: (_LIGHT, Plan(UNIQUE, 10_000, 10_000), replace(_STORM, alerts=10_000)),
}
# As many as take about ten seconds.
THEIRS: dict[str, Sequence[Plan]] = {
    "Alerta": (Plan(UNIQUE, 1_500, 1_500), Plan(STORM, 1_500, 200)),
    "Alertmanager": (Plan(UNIQUE, 20_000, 20_000), Plan(STORM, 60_000, 200)),
}
FLOOD = Flood(80_000)
IDLE_S = 20.0
# What --quick leaves of all numbers.
QUICK = 10


@dataclass(slots=True)
class Results:
    runs: list[Figures] = field(default_factory=list)
    quiet: list[QuietKey] = field(default_factory=list)
    idle: list[Idle] = field(default_factory=list)
    # Target -> why it is not in the table.
    absent: dict[str, str] = field(default_factory=dict)
    server: str = ""

    def run(self, target: str, name: str) -> Figures | None:
        return next((run for run in self.runs if (run.target, run.name) == (target, name)), None)


@dataclass(frozen=True, slots=True)
class Suite:
    """`server` is the address of a PostgreSQL server on which databases may be made."""

    server: str
    quick: bool = False
    peers: bool = True
    silent: bool = False

    def run(self) -> Results:
        """Peers and stores that are not there are told; what Tocsin lost is raised as Lost."""
        results = Results()
        try:
            results.server = version(self.server)
            with on_postgres(self.server) as ours:
                self._ours(ours, results)
        except NoServer as error:
            results.absent[POSTGRES] = str(error)
        if self.peers:
            for name, start in PEERS.items():
                self._theirs(name, start, results)
        with on_sqlite() as ours:
            self._idle(ours, results)
            self._ours(ours, results)
        return results

    def _ours(self, target: Tocsin, results: Results) -> None:
        for plan in self._plans(OURS[target.name]):
            results.runs.append(named(plan, target, self.silent))
        self._say(f"{target.name}, a quiet key beside a flood ...")
        flood = replace(FLOOD, flood=FLOOD.flood // QUICK, alerts=20) if self.quick else FLOOD
        results.quiet.append(quiet_key(flood, target))

    def _idle(self, target: Tocsin, results: Results) -> None:
        self._say(f"{target.name}, idle ...")
        results.idle.append(idle(target, IDLE_S / QUICK if self.quick else IDLE_S))

    def _theirs(
        self, name: str, start: Callable[[str], AbstractContextManager[Target]], results: Results
    ) -> None:
        try:
            with start(self.server) as target:
                for plan in self._plans(THEIRS[name]):
                    results.runs.append(measure(plan, target, self.silent))
        except (Absent, Lost, NobodyAnswers, OSError) as error:
            results.absent[name] = str(error).splitlines()[0]

    def _plans(self, plans: Sequence[Plan]) -> Iterator[Plan]:
        for plan in plans:
            alerts = plan.alerts // QUICK if self.quick else plan.alerts
            yield replace(plan, alerts=alerts, entities=min(plan.entities, alerts))

    def _say(self, what: str) -> None:
        if not self.silent:
            print(what, file=sys.stderr, flush=True)


def named(plan: Plan, target: Target, silent: bool) -> Figures:
    """Measured; a loss says in which run."""
    try:
        return measure(plan, target, silent)
    except Lost as error:
        raise Lost([f"{target.name}, run {plan.name!r}", *error.faults]) from None


FAILURES = (Lost, NobodyAnswers, NotUp)
