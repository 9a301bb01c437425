"""Run real processes of Tocsin for tests, each with its own data folder and port."""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.polling import PATIENCE_S, wait_until
from tests.support.stores import get_settings
from tocsin.server.embedded_redis import RedisKeeper


def find_free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


def build_environment(home: Path, port: int = 0, **settings: str) -> dict[str, str]:
    """Return the environment without the user's TOCSIN settings, with the database of this folder."""
    others_kept = {name: value for name, value in os.environ.items() if not name.startswith("TOCSIN_")}
    return {**others_kept, **get_settings(home), **({"TOCSIN_PORT": str(port)} if port else {}), **settings}


def tocsin(home: Path, *words: str, umask: int = -1, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run a command until it ends, with the umask of this process or another one."""
    return subprocess.run(
        [sys.executable, "-m", "tocsin", *words],
        env=build_environment(home, **settings),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        umask=umask,
    )


@dataclass
class Running:
    """A process that runs until it is stopped. Its output is in files of the data folder."""

    process: subprocess.Popen[bytes]
    home: Path
    port: int

    @property
    def out(self) -> str:
        return self.home.with_suffix(".out").read_text()

    @property
    def log(self) -> str:
        return self.home.with_suffix(".err").read_text()

    def get(self, path: str) -> tuple[int, Any]:
        asked = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            asked.request("GET", path)
            answer = asked.getresponse()
            return answer.status, json.loads(answer.read())
        except (OSError, http.client.HTTPException):
            return 0, {}
        finally:
            asked.close()

    def is_ready(self) -> bool:
        return self.get("/readyz")[0] == 200

    def list_children(self) -> dict[str, int]:
        """Return the child processes by kind; the kind of the Redis server is "redis"."""
        kinds = {pid: get_kind(pid) for pid in list_descendants(self.process.pid)}
        return {kind: pid for pid, kind in kinds.items() if kind}

    def signal(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)


@contextlib.contextmanager
def start_tocsin(home: Path, *words: str, port: int = 0, **settings: str) -> Iterator[Running]:
    """Start `tocsin WORDS`. It is stopped at the end of the test."""
    port = port or find_free_port()
    with home.with_suffix(".out").open("ab") as out, home.with_suffix(".err").open("ab") as err:
        process = subprocess.Popen(
            [sys.executable, "-m", "tocsin", *words],
            env=build_environment(home, port, **settings),
            stdout=out,
            stderr=err,
        )
    try:
        yield Running(process, home, port)
    finally:
        below = list_descendants(process.pid)
        if process.poll() is None:
            process.terminate()
        process.wait(PATIENCE_S)
        wait_until(lambda: not any(is_running(pid) for pid in below))


@contextlib.contextmanager
def start_redis(home: Path) -> Iterator[RedisKeeper]:
    """Start an embedded Redis server for this test."""
    home.mkdir(parents=True, exist_ok=True)
    keeper = RedisKeeper(home)
    keeper.start()
    try:
        yield keeper
    finally:
        keeper.stop()


def list_descendants(pid: int) -> list[int]:
    """Return all descendants of a process, from /proc."""
    try:
        lists = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    except OSError:
        return []
    below = [int(word) for text in lists for word in text.split()]
    return below + [deeper for child in below for deeper in list_descendants(child)]


def get_kind(pid: int) -> str:
    """Return the kind of a process. Empty: it has ended."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    except OSError:
        return ""
    return next((word for word in words if word in ("web", "worker", "clock", "listener")), "redis")


def is_running(pid: int) -> bool:
    """Return whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
