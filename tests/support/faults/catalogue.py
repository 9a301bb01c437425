"""The table of faults: what each one does to an instance, its Redis, its relay or its PostgreSQL server."""

import os
import random
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psycopg
import redis

from runtime.redis_socket import get_socket_path
from tests.support.faults import bodies
from tests.support.faults.relay import PHASES
from tests.support.faults.rounds import Site
from tests.support.polling import wait_until
from tests.support.postgresql.server import Server

# How long a fault lasts.
SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of a site. It lasts as long as the context of `strike`.

    `is_short`: whether `make faults` tries it too; `make faults-full` tries all.
    """

    name: str
    strike: Callable[[Site], AbstractContextManager[None]]
    is_short: bool = False
    seconds: float = SECONDS


@contextmanager
def kill(kind: str, site: Site) -> Iterator[None]:
    """Kill one process with SIGKILL. The supervisor starts it again."""
    wait_until(lambda: site.instance.kill_one(kind, random.Random(site.rounds)))
    yield


@contextmanager
def kill_all(site: Site) -> Iterator[None]:
    """Kill all processes at once, and start the installation again at the end."""
    site.instance.kill()
    yield
    site.instance.start()


@contextmanager
def freeze(kind: str, site: Site) -> Iterator[None]:
    """Stop all processes of a kind with SIGSTOP."""
    with stopped(one.pid for one in site.instance.processes() if one.kind == kind):
        yield


@contextmanager
def stopped(pids: Iterable[int]) -> Iterator[None]:
    found = list(pids)
    assert found, "no process to stop"
    for pid in found:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


@contextmanager
def restart(site: Site) -> Iterator[None]:
    """Stop the installation as an operator does, and start it again."""
    site.instance.stop()
    yield
    site.instance.start()


@contextmanager
def restart_each(site: Site) -> Iterator[None]:
    """Ask one process after the other to end. The supervisor starts each again."""
    for kind in ("worker", "clock", "web"):
        pid = site.instance.get_pid(kind)
        assert pid is not None
        os.kill(pid, signal.SIGTERM)
        wait_until(lambda kind=kind, pid=pid: site.instance.get_pid(kind) not in (None, pid), seconds=30)
    yield


def connect_redis(site: Site, password: str | None = None) -> "redis.Redis":
    return redis.Redis(unix_socket_path=str(get_socket_path(site.instance.home)), password=password)


@contextmanager
def flush_redis(site: Site) -> Iterator[None]:
    with connect_redis(site) as client:
        client.flushall()
    yield


@contextmanager
def fill_redis(site: Site) -> Iterator[None]:
    """Refuse all writes because the memory limit is reached."""
    with connect_redis(site) as client:
        client.config_set("maxmemory-policy", "noeviction")
        client.config_set("maxmemory", "1mb")
        yield
        client.config_set("maxmemory", "0")


@contextmanager
def make_redis_read_only(site: Site) -> Iterator[None]:
    """Make the server a replica of a server that does not exist: it accepts only reads."""
    with connect_redis(site) as client:
        client.execute_command("REPLICAOF", "127.0.0.1", "1")
        yield
        client.execute_command("REPLICAOF", "NO", "ONE")


@contextmanager
def change_redis_password(site: Site) -> Iterator[None]:
    """Require a password that Tocsin does not have, from all connections."""
    with connect_redis(site) as client:
        client.config_set("requirepass", "unknown")
        client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    yield
    with connect_redis(site, "unknown") as client:
        client.config_set("requirepass", "")


def fail_relay(fault: str, site: Site) -> AbstractContextManager[None]:
    return site.relay.failing(fault)


@contextmanager
def poison(site: Site) -> Iterator[None]:
    bodies.insert_broken_receipt()
    yield


@contextmanager
def send_mutated(count: int, site: Site) -> Iterator[None]:
    bodies.send_mutated(site.instance, count, random.Random(site.seed))
    yield


PROCESS_FAULTS = (
    Fault("kill -9 of the web process", partial(kill, "web")),
    Fault("kill -9 of a worker", partial(kill, "worker"), is_short=True),
    Fault("kill -9 of the clock process", partial(kill, "clock")),
    Fault("kill -9 of Redis; a new, empty one replaces it", partial(kill, "redis")),
    Fault("kill -9 of all processes", kill_all),
    Fault("web process frozen", partial(freeze, "web"), is_short=True),
    Fault("all workers frozen", partial(freeze, "worker")),
    Fault("clock process frozen", partial(freeze, "clock")),
    Fault("stop and start", restart),
    Fault("one process restarted after the other", restart_each, is_short=True),
    Fault("a receipt that cannot be read", poison, is_short=True),
    Fault("10,000 mutated bodies", partial(send_mutated, 10_000), seconds=0),
)

REDIS_FAULTS = (
    Fault("Redis: FLUSHALL", flush_redis),
    Fault("Redis frozen", partial(freeze, "redis")),
    Fault("Redis out of memory", fill_redis, is_short=True),
    Fault("Redis read-only", make_redis_read_only),
    Fault("Redis wants another password", change_redis_password),
)

RELAY_FAULTS = (
    Fault(
        "relay refuses every recipient",
        partial(fail_relay, "refuse RCPT"),
        is_short=True,
        seconds=20,
    ),
    Fault("relay refuses every sender", partial(fail_relay, "refuse MAIL")),
    Fault("relay refuses every mail after DATA", partial(fail_relay, "refuse DATA")),
    Fault("relay delays every recipient (greylisting)", partial(fail_relay, "delay RCPT")),
    *(Fault(f"relay hangs at {phase}", partial(fail_relay, f"hang {phase}")) for phase in PHASES),
    Fault("relay closes before 250", partial(fail_relay, "close before 250"), is_short=True),
    Fault("relay closes after half a mail", partial(fail_relay, "half a mail")),
)

TLS_FAULTS = (Fault("relay breaks TLS", partial(fail_relay, "broken TLS")),)


# Faults of a PostgreSQL server of its own. They need the server beside the site.


@contextmanager
def connect_as_operator(server: Server) -> Iterator[psycopg.Connection]:
    with psycopg.connect(server.url, autocommit=True, application_name="operator") as connection:
        yield connection


OUR_BACKENDS = "select pid from pg_stat_activity where application_name = 'tocsin'"


@contextmanager
def freeze_backend(server: Server, site: Site) -> Iterator[None]:
    """Stop the backend that served Tocsin last."""
    with connect_as_operator(server) as connection:
        found = connection.execute(f"{OUR_BACKENDS} order by state_change desc limit 1").fetchone()
    assert found is not None
    with stopped([found[0]]):
        yield


@contextmanager
def freeze_server(server: Server, site: Site) -> Iterator[None]:
    with stopped(server.list_pids()):
        yield


@contextmanager
def kill_server(server: Server, site: Site) -> Iterator[None]:
    """Kill the first process of the server with SIGKILL, and start the server again at the end."""
    pids = server.list_pids()
    os.kill(pids[0], signal.SIGKILL)
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), seconds=20)
    yield
    server.start()


@contextmanager
def end_backends(server: Server, site: Site) -> Iterator[None]:
    with connect_as_operator(server) as connection:
        connection.execute(f"select pg_terminate_backend(pid) from ({OUR_BACKENDS}) as ours")
    yield


@contextmanager
def exhaust_connections(server: Server, site: Site) -> Iterator[None]:
    """End Tocsin's connections, and open as many as the server permits."""
    with ExitStack() as stack, connect_as_operator(server) as connection:

        def open_all() -> None:
            with suppress(psycopg.OperationalError):
                while True:
                    stack.enter_context(psycopg.connect(server.url, application_name="operator"))

        open_all()
        # Most of what Tocsin loses now is taken before it connects again.
        connection.execute(f"select pg_terminate_backend(pid) from ({OUR_BACKENDS}) as ours")
        open_all()
        yield


@contextmanager
def make_read_only(server: Server, site: Site) -> Iterator[None]:
    """Refuse all writes, as after a failover to a replica."""
    with connect_as_operator(server) as connection:
        connection.execute("alter system set default_transaction_read_only = on")
        connection.execute("select pg_reload_conf()")
        connection.execute(f"select pg_terminate_backend(pid) from ({OUR_BACKENDS}) as ours")
    yield
    with connect_as_operator(server) as connection:
        connection.execute("set default_transaction_read_only = off")
        connection.execute("alter system reset default_transaction_read_only")
        connection.execute("select pg_reload_conf()")


@contextmanager
def fill_disk(folder: Path, site: Site) -> Iterator[None]:
    """Write into the file system of a folder until it is full."""
    filler = folder / "filler"
    with filler.open("wb") as file, suppress(OSError):
        while True:
            file.write(bytes(64 * 1024))
            file.flush()
    try:
        yield
    finally:
        filler.unlink()


SERVER_FAULTS: Mapping[str, tuple[Callable[[Server, Site], AbstractContextManager[None]], bool]] = {
    "PostgreSQL: one backend frozen": (freeze_backend, True),
    "PostgreSQL: all processes frozen": (freeze_server, False),
    "PostgreSQL: kill -9 of the first process": (kill_server, True),
    "PostgreSQL: all backends ended": (end_backends, True),
    "PostgreSQL: no connection left": (exhaust_connections, False),
    "PostgreSQL read-only": (make_read_only, True),
}


def list_server_faults(server: Server) -> list[Fault]:
    return [
        Fault(name, partial(strike, server), is_short=is_short)
        for name, (strike, is_short) in SERVER_FAULTS.items()
    ]
