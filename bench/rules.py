"""`python -m bench.rules`: measure the CPU time of alert rules, in one process and without a database."""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from time import thread_time

import click

from bench.data.rules import (
    build_alerts,
    build_facts,
    build_matching_rules,
    build_plain_rules,
    build_selective_rules,
)
from bench.report import describe_machine, format_machine
from models.domain.effects import EventState
from models.domain.facts import AlertRuleFacts
from pipeline.lane_state import LaneState
from pipeline.rules.rulesets import RuleSet
from pipeline.run_stages import AlertInProgress, run_stages
from pipeline.topology import build_segments

TIMES = 7
# The budget of an alert with a thousand rules that match it.
BUDGET_MS = 10.0

(SEGMENT,) = build_segments()


@dataclass(frozen=True, slots=True)
class Case:
    """Rules of one integration; `matching` of them match each of the alerts. budget_ms None: no budget."""

    name: str
    build: Callable[[], tuple[AlertRuleFacts, ...]]
    matching: int
    alerts: int = 100
    budget_ms: float | None = None


CASES = (
    Case("no rules", tuple, 0),
    Case("1,000 without condition", lambda: build_plain_rules(1_000), 1_000, 20, BUDGET_MS),
    Case("1,000 with conditions", lambda: build_matching_rules(1_000), 1_000, 20, BUDGET_MS),
    Case("10,000 rules", lambda: build_selective_rules(10_000, 1), 1),
    Case("10,000 rules", lambda: build_selective_rules(10_000, 100), 100),
)


@dataclass(frozen=True, slots=True)
class Measured:
    """`cpu_ms` is the CPU time of an alert in all stages, the median of several runs."""

    name: str
    matching: int
    cpu_ms: float
    budget_ms: float | None

    @property
    def is_over(self) -> bool:
        return self.budget_ms is not None and self.cpu_ms > self.budget_ms


def measure(case: Case) -> Measured:
    """Run the alerts of a case through all stages, several times. Each entity has two alerts."""
    facts = build_facts(case.build())
    rulesets = {row: RuleSet(rules) for row, rules in facts.rules.items()}
    alerts = build_alerts(case.alerts, case.alerts // 2)
    times_ms = []
    for _ in range(TIMES):
        state = LaneState(facts, rulesets=rulesets)
        started_time = thread_time()
        events = run_stages([AlertInProgress(alert) for alert in alerts], SEGMENT, state).events
        times_ms.append(1000 * (thread_time() - started_time) / case.alerts)
        _verify(case, events)
    return Measured(case.name, case.matching, median(times_ms), case.budget_ms)


def _verify(case: Case, events: Sequence[EventState]) -> None:
    """Raise ClickException unless the expected number of rules matched each alert, and none was skipped."""
    for event in events:
        reason = dict(event.reasons)["rules"]
        if reason.more or reason.parameters.get("matched", 0) != case.matching:
            raise click.ClickException(f"{case.name}: {reason}")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--json", "as_machine", is_flag=True, help="Print JSON.")
def main(as_machine: bool) -> None:
    """Measure alert rules. Exit code 1 if a figure is over its budget."""
    machine = describe_machine()
    measured = [measure(case) for case in CASES]
    if as_machine:
        click.echo(json.dumps({"machine": machine, "rules": [asdict(one) for one in measured]}, indent=2))
    else:
        click.echo(f"{_format_table(measured)}\n\n{format_machine(machine)}")
    if any(one.is_over for one in measured):
        sys.exit(1)


def _format_table(measured: Sequence[Measured]) -> str:
    lines = [f"{'rules':32}{'match':>8}{'ms per alert':>14}{'budget':>8}"]
    for one in measured:
        budget = "" if one.budget_ms is None else f"{one.budget_ms:.0f}"
        over = "  over" if one.is_over else ""
        lines.append(f"{one.name:32}{one.matching:8,}{one.cpu_ms:14.3f}{budget:>8}{over}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
