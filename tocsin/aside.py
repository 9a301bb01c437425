"""`tocsin aside`: what was set aside with its error, for whoever runs this installation."""

import json
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import click
import structlog

from models import aside as kept
from models.aside import Changed, Key, Scope, SetAside
from models.base import connection, open_store
from models.migrate import make_schema
from pipeline.topology import covering, segments
from tocsin import logs
from tocsin.embedded_redis import url_of
from tocsin.people import as_json_option
from tocsin.settings import Settings, load
from tocsin.table import plain, table
from workers import bell

log = structlog.get_logger()

WHO = "the command line"
# Work that takes longer says how far it has come, that often.
TELL_EVERY_S = 2.0

_UNPRINTABLE = re.compile(r"[^\n\t -~\u00a0-\u2027\u202f-\u2065\u2070-\ud7ff\ue000-\U0010ffff]")

service_option = click.option("--service", help="Only of the service with this name or unique_id.")
integration_option = click.option(
    "--integration", help="Only of the integration with this name or unique_id."
)
all_option = click.option("--all", "every", is_flag=True, help="All that is set aside.")
reference_argument = click.argument("reference", metavar="[TRACE_ID]", required=False)


@click.group(invoke_without_command=True)
@service_option
@integration_option
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="Show the last of them.")
@as_json_option
@click.pass_context
def aside(
    context: click.Context, service: str | None, integration: str | None, limit: int, as_json: bool
) -> None:
    """See what was set aside with its error; take it up again, or drop it.

    Without a command: list it, newest last.
    """
    if context.invoked_subcommand is not None:
        if service or integration or as_json:
            raise click.UsageError(f"options of {context.invoked_subcommand} stand after it")
        return
    with _rows():
        every = kept.within(Scope(service=service, integration=integration))
        shown = kept.listed(every[-limit:])
    if as_json:
        click.echo(json.dumps({"count": len(every), "results": [_told(one) for one in shown]}))
        return
    for line in table([_columns(one) for one in shown]):
        click.echo(line)
    click.echo(_total(len(shown), len(every)))


@aside.command()
@click.argument("reference", metavar="TRACE_ID")
@click.option("--body", "with_body", is_flag=True, help="Write the body as it was sent, and nothing else.")
@as_json_option
def show(reference: str, with_body: bool, as_json: bool) -> None:
    """Tell the error, and the road so far."""
    with _rows():
        found = kept.listed(_named(reference))
        body = kept.body_of(found[0].trace_id) if with_body else None
    if body is not None:
        _write(body)
    elif as_json:
        click.echo(json.dumps([_told(one) for one in found]))
    else:
        click.echo("\n\n".join("\n".join(map(plain, _lines(one))) for one in found))


@aside.command()
@reference_argument
@all_option
@service_option
@integration_option
@as_json_option
def replay(
    reference: str | None, every: bool, service: str | None, integration: str | None, as_json: bool
) -> None:
    """Take up again what was set aside, as if it had just come in.

    Exit code 1 when anything could not be taken up.
    """
    with _rows() as settings:
        wanted = _wanted(reference, every, Scope(service=service, integration=integration))
        bell.connect(settings.redis_url or url_of(settings.home))
        progress = _change(wanted, kept.replay, "taken up again", settings)
    _end(progress, "taken up again", as_json)


@aside.command()
@reference_argument
@all_option
@service_option
@integration_option
@click.option("--yes", is_flag=True, help="Do not ask.")
@as_json_option
def drop(
    reference: str | None,
    every: bool,
    service: str | None,
    integration: str | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Leave it at that: nobody will work on what was set aside any more.

    It can still be told, by `tocsin why`, as long as other alerts. Exit code 1 when nothing was dropped.
    """
    with _rows() as settings:
        wanted = _wanted(reference, every, Scope(service=service, integration=integration))
        if wanted and not yes and not _is_confirmed(len(wanted)):
            raise click.ClickException("nothing is dropped")
        progress = _change(wanted, kept.drop, "dropped", settings)
    _end(progress, "dropped", as_json)


@contextmanager
def _rows() -> Iterator[Settings]:
    """The settings, with the database of these."""
    settings = load()
    logs.configure(settings.log_level, "aside")
    open_store(settings.database_url, settings.home)
    make_schema(settings.home)
    with connection():
        yield settings


def _named(reference: str) -> list[Key]:
    found = kept.keys_of(reference.strip())
    if not found:
        raise click.ClickException(f"nothing is set aside of {reference}")
    return found


def _wanted(reference: str | None, every: bool, scope: Scope) -> list[Key]:
    if bool(reference) == every:
        raise click.UsageError("say a TRACE_ID, or --all")
    if reference is None:
        return kept.within(scope)
    if scope != kept.EVERYTHING:
        raise click.UsageError("--service and --integration go with --all")
    return _named(reference)


def _is_confirmed(count: int) -> bool:
    try:
        return click.confirm(f"Drop {count:,}, so that nobody ever works on them?", err=True)
    except click.Abort:
        raise click.ClickException("nothing is dropped: nobody is there to ask; say --yes") from None


@dataclass(slots=True)
class _Progress:
    """How far a change has come: of `total`, `done` are changed, and `orphans` cannot be."""

    total: int
    done: int = 0
    orphans: int = 0
    seen: int = 0

    @property
    def lost(self) -> int:
        """Those that somebody else changed first."""
        return self.seen - self.done - self.orphans


def _change(
    wanted: Sequence[Key], change: Callable[[Sequence[Key], str], Changed], verb: str, settings: Settings
) -> _Progress:
    """Piece by piece, each in a transaction of its own, so that the lanes can go on between them."""
    progress = _Progress(len(wanted))
    tell_at = time.monotonic() + TELL_EVERY_S
    for piece in kept.pieces(wanted):
        changed = change(piece, WHO)
        _ring(changed, settings.road_cuts)
        progress.seen += len(piece)
        progress.done += len(changed.ids)
        progress.orphans += changed.orphans
        if changed.ids:
            log.info(verb, count=len(changed.ids), ids=changed.ids[:10])
        if time.monotonic() >= tell_at and progress.seen < progress.total:
            click.echo(f"{progress.seen:,} of {progress.total:,} ...", err=True)
            tell_at = time.monotonic() + TELL_EVERY_S
    return progress


def _ring(changed: Changed, cuts: Sequence[str]) -> None:
    road = segments(cuts)
    for service, stage in changed.lanes:
        bell.ring_road(service, covering(road, stage).name if stage else road[0].name)
    for router in changed.routers:
        bell.ring_router(router)


def _end(progress: _Progress, verb: str, as_json: bool) -> None:
    if as_json:
        told = {"done": progress.done, "orphans": progress.orphans, "lost": progress.lost}
        click.echo(json.dumps(told))
    else:
        click.echo(f"{progress.done:,} {verb}" if progress.total else "nothing is set aside")
    if progress.orphans:
        click.echo(
            f"{progress.orphans:,} came in by what was deleted since: they can only be dropped", err=True
        )
    if progress.lost:
        click.echo(f"{progress.lost:,} were taken up or dropped by somebody else meanwhile", err=True)
    sys.exit(1 if progress.orphans or progress.lost else 0)


def _told(one: SetAside) -> dict[str, Any]:
    """For machines."""
    return {
        "id": one.id,
        "trace_id": one.trace_id,
        "position": one.position,
        "accepted_at": one.accepted_at.isoformat(),
        "error": one.error,
        "source": one.source,
        **{
            owner: named._asdict() if (named := getattr(one, owner)) else None
            for owner in ("service", "integration", "router")
        },
        "message": one.message,
        "road": [{"stage": stage, "reason": reason} for stage, reason in one.road],
        "body_bytes": one.size,
        "alerts": one.alerts,
    }


def _columns(one: SetAside) -> tuple[str, ...]:
    return (_moment(one.accepted_at), one.trace_id, _what(one), _where(one), one.error)


def _what(one: SetAside) -> str:
    return "whole body" if one.position is None else f"alert {one.position + 1} of {one.alerts}"


def _where(one: SetAside) -> str:
    if one.service is None and one.router is not None:
        return f"router {one.router.name}"
    return " / ".join(named.name if named else "(deleted)" for named in (one.service, one.integration))


def _total(shown: int, total: int) -> str:
    if not total:
        return "nothing is set aside"
    return f"{total:,} set aside" if shown == total else f"the last {shown:,} of {total:,} set aside"


def _lines(one: SetAside) -> list[str]:
    lines = [
        f"set aside: {one.error}",
        f"{_what(one)}, trace_id {one.trace_id}"
        + (f", unique_id {one.id}" if one.position is not None else ""),
        f"accepted {_moment(one.accepted_at)} UTC ({one.source}) for {_where(one)}",
        f"body of {one.size:,} bytes with {one.alerts:,} alert{'s' if one.alerts != 1 else ''}",
    ]
    if one.message is not None:
        lines.append(f"message: {one.message}")
    return lines + [f"  {stage:<10} {reason}" for stage, reason in one.road]


def _write(body: bytes) -> None:
    """As it is for a file or another program; for a terminal without what would steer it."""
    if sys.stdout.isatty():
        click.echo(_UNPRINTABLE.sub("\ufffd", body.decode("utf-8", "replace")))
    else:
        sys.stdout.buffer.write(body)


def _moment(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S}"
