"""Loggers that load structlog with their first line: a short command logs nothing, and structlog needs as
much time as the rest of it."""

from collections.abc import Callable
from functools import cache

# The level and the process of logs that nothing has configured before their first line.
_defaults: list[tuple[str, str]] = []


class LateLogger:
    """A logger as structlog.get_logger() returns it."""

    def __getattr__(self, method: str) -> Callable[..., None]:
        found: Callable[..., None] = getattr(_get_logger(), method)
        return found


def configure_later(level: str, process: str) -> None:
    """Configure the logs as runtime.logs.configure() does, unless they are, before the first line."""
    _defaults[:] = [(level, process)]


@cache
def _get_logger() -> object:
    import structlog

    from runtime import logs

    if _defaults and not structlog.is_configured():
        logs.configure(*_defaults[0])
    return structlog.get_logger()
