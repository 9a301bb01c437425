"""Build figures of runs."""

from bench.run import Figures


def figures(target: str, run: str, full_rate: float, **changes: object) -> Figures:
    """Return figures with only a full rate; all other numbers are 1."""
    numbers = dict.fromkeys(
        (name for name in Figures.__dataclass_fields__ if name not in ("target", "name")), 1
    )
    return Figures(**{**numbers, "target": target, "name": run, "full_rate": full_rate, **changes})
