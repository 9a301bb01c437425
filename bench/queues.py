"""`python -m bench.queues`: measure what it costs to split the pipeline into more queues."""

import statistics
import sys
from collections import defaultdict

import click

from bench.report import describe_machine, format_machine
from bench.run import AlertsLost, Figures, RunSpec, measure
from bench.servers.instance import NotReady
from bench.servers.postgres import ServerUnavailable
from bench.tocsin import start_on_postgres

# The values of TOCSIN_PIPELINE_QUEUES. The first is what the others are compared with.
SPLITS = ("", "rules", "normalize,route,rules")
RUNS = (RunSpec("unique", 5_000, 5_000), RunSpec("storm", 10_000, 200))
ROUNDS = 2


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--server", envvar="TEST_DATABASE_URL", default="postgresql:///postgres", show_default=True)
def main(server: str) -> None:
    """Compare the whole pipeline in one queue with a pipeline in two and in four, in turns, on PostgreSQL."""
    click.echo(format_machine(describe_machine()))
    found: dict[tuple[str, str], list[Figures]] = defaultdict(list)
    try:
        for _ in range(ROUNDS):
            for split in SPLITS:
                with start_on_postgres(server, pipeline_queues=split) as target:
                    for spec in RUNS:
                        found[split, spec.name].append(measure(spec, target, quiet=True))
    except (AlertsLost, NotReady, ServerUnavailable) as error:
        click.echo(f"not reported: {error}", err=True)
        sys.exit(1)
    for spec in RUNS:
        first = found[SPLITS[0], spec.name]
        for split in SPLITS:
            rate, cpu = _mean(found[split, spec.name])
            click.echo(
                f"{spec.name:<7} queues after: {split or '(none)':<22} {rate:6.0f} alerts/s"
                f" ({rate / _mean(first)[0]:.2f})  {cpu:.2f} ms of CPU an alert ({cpu / _mean(first)[1]:.2f})"
            )


def _mean(runs: list[Figures]) -> tuple[float, float]:
    """Return the mean full rate (alerts per second) and the mean CPU time of an alert (milliseconds)."""
    return statistics.mean(run.full_rate for run in runs), statistics.mean(run.cpu_ms for run in runs)


if __name__ == "__main__":
    main()
