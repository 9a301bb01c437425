"""The commands that run processes.

Each command imports its code only when it runs, so that a clock process does not load the web code.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click
import structlog

from runtime import liveness, logs
from runtime.settings import Settings, load

log = structlog.get_logger()

parent_option = click.option("--parent", type=int, hidden=True, help="The process to end with.")


@click.command()
def up() -> None:
    """Run everything: web, worker, clock, and Redis unless there is one. Ctrl-C stops it."""
    from models.store.migrate import migrate as apply_migrations
    from tocsin.server import listening, supervisor
    from tocsin.server.first_start import build_welcome, prepare

    settings = load()
    logs.configure(settings.log_level, "up")
    supervisor.claim_lock(settings.home)
    listening.check_free(settings)
    credentials = prepare(settings, apply_migrations)
    text = build_welcome(settings, credentials, to_terminal=sys.stdout.isatty())
    sys.exit(supervisor.Supervisor(settings, lambda: click.echo(text)).run())


@click.command()
@parent_option
def web(parent: int | None) -> None:
    """Run a web process."""
    with _process("web", parent) as (settings, redis_url):
        from tocsin.server.serve import serve
        from web.app import create_app
        from workers import queue

        queue.connect(redis_url, settings.pipeline_queues)
        serve(create_app(settings), settings)


@click.command()
@parent_option
@click.option("--queue", "queues", multiple=True, help="Listen to this queue alone; may be given again.")
def worker(parent: int | None, queues: tuple[str, ...]) -> None:
    """Run a worker process."""
    with _process("worker", parent) as (settings, redis_url):
        from workers.main import run

        if not settings.smtp_host:
            log.warning("Tocsin cannot send e-mail: set TOCSIN_SMTP_HOST")
        run(settings, redis_url, queues)


@click.command()
@parent_option
def clock(parent: int | None) -> None:
    """Run a clock process."""
    with _process("clock", parent) as (settings, redis_url):
        from schedules.clock import PeriodicJob, run
        from tocsin.server import dead_mans_switch
        from workers import queue
        from workers.periodic.table import PERIODIC_JOBS

        queue.connect(redis_url, settings.pipeline_queues)
        dead_mans_switch.configure(settings)
        period = settings.dead_mans_switch_every
        switch = PeriodicJob("dead_mans_switch", period, dead_mans_switch.ping, slow=True)
        run(redis_url, [*PERIODIC_JOBS, switch] if settings.dead_mans_switch_url else PERIODIC_JOBS)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="For machines.")
def migrate(as_json: bool) -> None:
    """Bring the database up to date."""
    from models.store.base import open_store
    from models.store.migrate import migrate as apply_migrations

    settings = load()
    open_store(settings.database_url, settings.home)
    applied = apply_migrations(settings.home)
    if as_json:
        click.echo(json.dumps({"applied": applied}))
    else:
        click.echo("\n".join(f"applied {name}" for name in applied) or "nothing to do")


@contextmanager
def _process(kind: str, parent: int | None) -> Iterator[tuple[Settings, str]]:
    """What every process does before and after its work: settings, logs, the first start, a Redis, metrics.

    Alone it keeps a Redis for the data folder, unless there is one or another process does; under
    `tocsin up` that is the supervisor's work.
    """
    if parent is not None:
        liveness.end_with_parent(parent)
    from models.reports.save_metrics import keep_metrics
    from tocsin.server.embedded_redis import RedisKeeper, get_url
    from tocsin.server.first_start import build_welcome, prepare

    settings = load()
    logs.configure(settings.log_level, kind)
    credentials = prepare(settings)
    if credentials is not None:
        click.echo(build_welcome(settings, credentials, to_terminal=sys.stdout.isatty()))
    if settings.redis_url or parent is not None:
        with keep_metrics(kind):
            yield settings, settings.redis_url or get_url(settings.home)
        return
    keeper = RedisKeeper(settings.home)
    keeper.start()
    try:
        with keep_metrics(kind):
            yield settings, get_url(settings.home)
    finally:
        keeper.stop()
