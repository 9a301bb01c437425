"""No test starts a process, except those with a mark: processes cost time, and fail on a busy machine."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import selection

# What Python announces before it starts a process.
STARTS = {"subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty", "os.exec", "os.system", "pty.spawn"}
ALLOWED_PROGRAMS = {
    # The choice of a Redis server asks each program for its version, in every check of an installation.
    ("valkey-server", "--version"), ("redis-server", "--version"),
    # platform.uname(), which libraries call for the name that they send.
    ("uname", "-p"),
}  # fmt: skip

_test: str | None = None


class StartRefused(BaseException):
    """No `except Exception` hides it."""


def may_start(item: pytest.Item) -> bool:
    """Return whether a test has a mark of tests that start processes."""
    return any(item.get_closest_marker(name) for name in ("processes", *selection.OTHER_TARGETS))


@contextmanager
def forbid_starts(test: str | None) -> Iterator[None]:
    """Refuse to start processes in the block, on behalf of this test. None: they may be started."""
    global _test
    _test = test
    try:
        yield
    finally:
        _test = None


def _check(event: str, arguments: tuple[Any, ...]) -> None:
    if _test is None or event not in STARTS or _is_allowed(event, arguments):
        return
    raise StartRefused(
        f"{_test} starts a process ({event} {arguments[:2]}): add its file to PROCESSES in"
        " tests/selection.py, or mark it with pytest.mark.processes"
    )


def _is_allowed(event: str, arguments: tuple[Any, ...]) -> bool:
    # Since Python 3.13, subprocess announces both.
    if event not in ("subprocess.Popen", "os.posix_spawn") or not isinstance(arguments[1], list):
        return False
    program, *words = map(str, arguments[1])
    return (Path(program).name, *words) in ALLOWED_PROGRAMS


sys.addaudithook(_check)
