"""Format the figures of a siege as tables, and compare them with the goals."""

from collections import Counter
from collections.abc import Iterator

from bench.report import align
from bench.run import percentile
from bench.siege.run import AttackFigures, OtherTenant, SiegeFigures, describe

# The goals for the other tenant, in ms.
MAX_ACCEPT_MS = 250
MAX_MAIL_MS = 2_000


def format_figures(figures: SiegeFigures) -> str:
    other = figures.other
    return "\n\n".join(
        (
            f"{figures.store}, {figures.seconds:.0f} s; used elsewhere: {figures.other_load:.0f} % of CPU",
            _format_attacks(figures.attacks),
            _format_others(figures.attacks),
            f"other tenant: {other.due} alerts, {format_statuses(other.statuses)}, sent again"
            f" {other.repeated}, without an answer {other.unanswered}\n"
            f"accepted after (p50 / p99 / max): {describe(other.accept_ms)} ms\n"
            f"mail after (p50 / p99 / max): {describe(other.mail_ms)} ms",
            *other.faults,
            _format_processes(figures),
            _format_goals(figures),
        )
    )


def format_statuses(statuses: Counter[str]) -> str:
    return ", ".join(f"{status}: {count:,}" for status, count in sorted(statuses.items())) or "-"


def _format_attacks(attacks: list[AttackFigures]) -> str:
    heading = ["attack", "requests", "answers by status", "web CPU ms", "worker CPU ms", "database CPU ms"]
    rows = [
        [
            attack.name,
            f"{attack.requests:,}",
            format_statuses(attack.statuses),
            *(
                f"{attack.get_cpu_ms(kind):,.1f}" if attack.by_itself else "-"
                for kind in ("web", "worker", "database")
            ),
        ]
        for attack in attacks
    ]
    return f"{align(heading, rows)}\nCPU: of one request, when the attack runs by itself."


def _format_others(attacks: list[AttackFigures]) -> str:
    heading = [
        "beside this attack by itself",
        "alerts",
        "answers",
        "accepted p99 ms",
        "mail max ms",
        "verdict",
    ]
    rows = [
        [attack.name, f"{other.due}", format_statuses(other.statuses), *_format_times(other)]
        for attack in attacks
        if attack.by_itself
        for other in [attack.by_itself.other]
    ]
    return align(heading, rows)


def _format_times(other: OtherTenant) -> list[str]:
    verdict = "met" if all(met for _, _, met in _list_times(other)) else "MISSED"
    return [f"{percentile(other.accept_ms, 99):,.0f}", f"{percentile(other.mail_ms, 100):,.0f}", verdict]


def _format_processes(figures: SiegeFigures) -> str:
    kinds = sorted(figures.peak_mib)
    rows = [
        [
            kind,
            f"{figures.rest_mib.get(kind, 0.0):,.0f}",
            f"{figures.peak_mib[kind]:,.0f}",
            f"{figures.after_mib.get(kind, 0.0):,.0f}",
            f"{figures.cpu_s.get(kind, 0.0):,.1f}",
        ]
        for kind in kinds
    ]
    after = f"MiB {figures.after_s:,.0f} s after"
    return align(["process", "MiB at rest", "MiB peak", after, "CPU s"], rows)


def list_goals(figures: SiegeFigures) -> Iterator[tuple[str, str, bool]]:
    """Yield each goal, what was measured, and whether the goal was met."""
    other = figures.other
    yield from _list_times(other)
    refused = other.server_errors + other.unanswered
    yield "no 5xx, no missing answer", str(refused), not refused
    lost = len(other.faults) + figures.missing
    yield "no accepted alert lost or notified twice", str(lost), not lost


def _list_times(other: OtherTenant) -> Iterator[tuple[str, str, bool]]:
    accept_ms = percentile(other.accept_ms, 99)
    mail_ms = percentile(other.mail_ms, 100)
    yield f"p99 of acceptance under {MAX_ACCEPT_MS} ms", f"{accept_ms:,.0f} ms", accept_ms < MAX_ACCEPT_MS
    yield f"notified within {MAX_MAIL_MS // 1000} s", f"{mail_ms / 1000:,.1f} s", mail_ms < MAX_MAIL_MS


def _format_goals(figures: SiegeFigures) -> str:
    rows = [[goal, value, "met" if met else "MISSED"] for goal, value, met in list_goals(figures)]
    return align(["goal", "measured", "verdict"], rows)
