"""The commands that run processes.

Each command imports its code only when it runs, so that a clock process does not load the web code.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import click

from runtime import data_folder, metrics_folder, parent_process
from runtime.settings import Settings, find_unset, list_values, load
from tocsin.commands.options import as_json_option
from tocsin.commands.output import print_json

parent_option = click.option(
    "--parent",
    type=int,
    hidden=True,
    help="The ID of the parent process: this process ends when the parent ends.",
)


@click.command()
def up() -> None:
    """Run web, worker and clock, and Redis if TOCSIN_REDIS_URL is not set. Ctrl-C stops all of them.

    Also run a listener if a setting needs it.
    """
    from models.store.migrate import migrate as apply_migrations
    from runtime import logs
    from tocsin.server import listening, supervisor
    from tocsin.server.first_start import build_welcome, find_first_sign_in, prepare_process

    settings = load()
    logs.configure(settings.log_level, "up")
    data_folder.prepare(settings.home)
    supervisor.claim_lock(settings.home)
    listening.check_free(settings)
    credentials = prepare_process(settings, apply_migrations)
    to_terminal = sys.stdout.isatty()
    sign_in = find_first_sign_in(settings) if to_terminal else ""
    text = build_welcome(settings, credentials, to_terminal=to_terminal, sign_in=sign_in)
    sys.exit(supervisor.Supervisor(settings, lambda: click.echo(text)).run())


@click.command()
@parent_option
def web(parent: int | None) -> None:
    """Run a web process."""
    with _process("web", parent) as (settings, redis_url):
        from models.store import limits, prepared
        from models.store.store import store
        from tocsin.server.serve import serve
        from web.app import create_app, get_fast_path
        from web.ingest import events
        from web.pages import refusal
        from workers import queue

        store().set_limits(limits.WEB)
        queue.connect(redis_url, settings.pipeline_queues)
        app = create_app(settings)
        prepared.compile_all()
        accept, build_refusal = get_fast_path(app).accept, refusal.create_builder(settings)
        serve(app, settings, accept, build_refusal, on_stop=events.results.close)


@click.command()
@parent_option
@click.option(
    "--queue", "queues", multiple=True, help="Process only this queue. Repeat the option for several queues."
)
def worker(parent: int | None, queues: tuple[str, ...]) -> None:
    """Run a worker process."""
    with _process("worker", parent) as (settings, redis_url):
        from models.store import limits
        from models.store.store import store
        from workers.main import run

        store().set_limits(limits.WORKER)
        run(settings, redis_url, queues)


@click.command()
@parent_option
def clock(parent: int | None) -> None:
    """Run a clock process."""
    with _process("clock", parent) as (settings, redis_url):
        from models.store import limits
        from models.store.store import store
        from schedules.clock_process import PeriodicJob, run
        from tocsin.server import dead_mans_switch
        from workers import steps
        from workers.alerts import process_lane
        from workers.broker import broker
        from workers.periodic import retention
        from workers.periodic.table import PERIODIC_JOBS

        store().set_limits(limits.WORKER)
        process_lane.configure(settings.pipeline_queues)
        broker.connect(redis_url)
        dead_mans_switch.configure(settings)
        retention.configure(settings)
        period = settings.dead_mans_switch_every
        switch = PeriodicJob("dead-mans-switch", period, dead_mans_switch.ping, slow=True)
        run(redis_url, [*PERIODIC_JOBS, switch] if settings.dead_mans_switch_url else PERIODIC_JOBS)
        # Otherwise the process would end only after the clean-up, which can take minutes.
        steps.stop()


@click.command()
@parent_option
def listener(parent: int | None) -> None:
    """Run a listener process, for Slack, Telegram and mails. With two, one waits for Slack and Telegram."""
    with _process("listener", parent) as (settings, redis_url):
        from models.store import limits, prepared
        from models.store.store import store
        from tocsin.server import listening
        from tocsin.server.listener import process
        from workers import queue

        sessions = []
        if settings.mail_in_domain:
            from tocsin.server.mail_in.server import MailServer

            sessions.append(MailServer(settings, listening.listen_for_mail(settings)))
        store().set_limits(limits.WORKER)
        queue.connect(redis_url, settings.pipeline_queues)
        prepared.compile_all()
        process.run(settings, sessions)


@click.command()
@as_json_option
def migrate(as_json: bool) -> None:
    """Apply the pending migrations to the database."""
    from models.store.migrate import migrate as apply_migrations
    from models.store.opening import open_store
    from tocsin.commands.progress import show_step

    settings = load()
    open_store(settings.database_url, settings.home)
    applied = apply_migrations(settings.home, show_step)
    text = "\n".join(f"applied {name}" for name in applied) or "nothing to do"
    if as_json:
        print_json({"applied": applied})
    else:
        click.echo(text)


@contextmanager
def _process(kind: str, parent: int | None) -> Iterator[tuple[Settings, str]]:
    """Prepare a process, yield its settings and the URL of its Redis, and clean up afterwards.

    Read the settings, configure the logs, join the metrics of this host, create the first account in an empty
    data folder, and write the liveness. Without TOCSIN_REDIS_URL, a process without a parent also keeps the
    embedded Redis server of the data folder running. Under `tocsin up`, the supervisor does this.
    """
    from runtime import logs

    if parent is not None:
        parent_process.end_with_parent(parent)
    settings = load()
    logs.configure(settings.log_level, kind)
    data_folder.prepare(settings.home)
    metrics_folder.join(settings.home)

    from models.reports.save_liveness import keep_liveness
    from runtime.metrics import count_start
    from runtime.redis_socket import get_url
    from tocsin.server import metrics_server
    from tocsin.server.embedded_redis import RedisKeeper
    from tocsin.server.first_start import build_welcome, prepare_process

    credentials = prepare_process(settings)
    if credentials is not None:
        click.echo(build_welcome(settings, credentials, to_terminal=sys.stdout.isatty()))
    from models.domain.channels import CHANGING_CHANNELS, CHANNELS
    from models.write import message_updates

    count_start(kind)
    message_updates.configure(
        [each for each in CHANGING_CHANNELS if not find_unset(settings, CHANNELS[each].name)]
    )
    metrics_server.start(settings)
    # The middleware of a worker writes its liveness.
    liveness = keep_liveness(kind, list_values(settings)) if kind != "worker" else nullcontext()
    if settings.redis_url or parent is not None:
        with liveness:
            yield settings, settings.redis_url or get_url(settings.home)
        return
    keeper = RedisKeeper(settings.home)
    keeper.start()
    try:
        with liveness:
            yield settings, get_url(settings.home)
    finally:
        keeper.stop()
