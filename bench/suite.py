"""Run the whole comparison: all runs of each target, one target after the other."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace

from bench.idle import Flood, Idle, QuietKey, idle, measure_quiet_key
from bench.load import Loader, NoAnswer
from bench.peers import PEERS, PeerUnavailable
from bench.run import AlertsLost, Figures, RunSpec, Sender, Target, measure
from bench.servers.instance import NotReady
from bench.servers.postgres import ServerUnavailable, version
from bench.tocsin import Tocsin, start_on_postgres, start_on_sqlite
from bench.traffic import Way

# The budgets find their runs by these names.
LIGHT, UNIQUE, STORM, STORM_16 = "light load", "unique", "storm", "storm, 16 connections"
GROUPS = "groups of 50"
POSTGRES, SQLITE = "Tocsin, PostgreSQL", "Tocsin, SQLite"

# Into one service, its only lane is processed by one worker at a time.
SERVICES = (20, 1)


def _list_ways(*specs: RunSpec) -> tuple[RunSpec, ...]:
    """Return each run for each operation and number of services. Only one operation accepts groups."""
    return tuple(
        replace(spec, way=way, services=services)
        for spec in specs
        for way in Way
        for services in SERVICES
        if spec.batch == 1 or way is Way.ALERTMANAGER
    )


_LIGHT = RunSpec(LIGHT, 200, 200, connections=8, rate=20)

OWN_RUNS: dict[str, Sequence[RunSpec]] = {
    POSTGRES: _list_ways(
        _LIGHT,
        RunSpec(UNIQUE, 20_000, 20_000),
        RunSpec(STORM, 20_000, 200),
        RunSpec(STORM_16, 6_000, 200, connections=16),
        RunSpec(GROUPS, 100_000, 200, batch=50),
    ),
    SQLITE: _list_ways(_LIGHT, RunSpec(UNIQUE, 10_000, 10_000), RunSpec(STORM, 10_000, 200)),
}
# Numbers of alerts that take about ten seconds.
PEER_RUNS: dict[str, Sequence[RunSpec]] = {
    "Alerta": (RunSpec(UNIQUE, 1_500, 1_500), RunSpec(STORM, 1_500, 200)),
    "Alertmanager": (RunSpec(UNIQUE, 20_000, 20_000), RunSpec(STORM, 200_000, 200)),
}
FLOOD = Flood(80_000)
IDLE_S = 20.0
# The factor of --quick for all numbers.
QUICK = 10


@dataclass(slots=True)
class Results:
    runs: list[Figures] = field(default_factory=list)
    quiet: list[QuietKey] = field(default_factory=list)
    idle: list[Idle] = field(default_factory=list)
    # Target -> the reason why it is not in the table.
    unavailable: dict[str, str] = field(default_factory=dict)
    server: str = ""

    def list_runs(self, target: str, name: str) -> list[Figures]:
        """Return the runs of a target with this name: one for each operation and number of services."""
        return [run for run in self.runs if (run.target, run.name) == (target, name)]


@dataclass(frozen=True, slots=True)
class Suite:
    """`server` is the URL of a PostgreSQL server on which databases may be created."""

    server: str
    quick: bool = False
    peers: bool = True
    silent: bool = False

    def run(self) -> Results:
        """Run all targets. Report missing peers and databases. Raise AlertsLost if Tocsin lost an alert."""
        results = Results()
        try:
            results.server = version(self.server)
            with start_on_postgres(self.server) as ours:
                self._measure_own(ours, results)
        except ServerUnavailable as error:
            results.unavailable[POSTGRES] = str(error)
        if self.peers:
            for name, start in PEERS.items():
                self._measure_peer(name, start, results)
        with start_on_sqlite() as ours:
            self._measure_idle(ours, results)
            self._measure_own(ours, results)
        return results

    def _measure_own(self, target: Tocsin, results: Results) -> None:
        for spec in self._list_specs(OWN_RUNS[target.name]):
            results.runs.append(measure_named(spec, target, self.silent))
        self._report(f"{target.name}, a quiet key beside a flood ...")
        flood = replace(FLOOD, flood=FLOOD.flood // QUICK, alerts=20) if self.quick else FLOOD
        results.quiet.append(measure_quiet_key(flood, target))

    def _measure_idle(self, target: Tocsin, results: Results) -> None:
        self._report(f"{target.name}, idle ...")
        results.idle.append(idle(target, IDLE_S / QUICK if self.quick else IDLE_S))

    def _measure_peer(
        self, name: str, start: Callable[[str], AbstractContextManager[Target]], results: Results
    ) -> None:
        try:
            with start(self.server) as target:
                for spec in self._list_specs(PEER_RUNS[name]):
                    results.runs.append(measure(spec, target, self.silent))
        except (PeerUnavailable, AlertsLost, NoAnswer, OSError) as error:
            results.unavailable[name] = str(error).splitlines()[0]

    def _list_specs(self, specs: Sequence[RunSpec]) -> Iterator[RunSpec]:
        for spec in specs:
            alerts = spec.alerts // QUICK if self.quick else spec.alerts
            yield replace(spec, alerts=alerts, entities=min(spec.entities, alerts))

    def _report(self, what: str) -> None:
        if not self.silent:
            print(what, file=sys.stderr, flush=True)


def measure_named(
    spec: RunSpec, target: Target, silent: bool, create_sender: Callable[..., Sender] = Loader
) -> Figures:
    """Measure a run. An AlertsLost error names the run."""
    try:
        return measure(spec, target, silent, create_sender)
    except AlertsLost as error:
        raise AlertsLost([f"{target.name}, run {spec.name!r}", *error.faults]) from None


FAILURES = (AlertsLost, NoAnswer, NotReady)
