"""`tocsin dead-letters`: what was set aside with its error, for whoever runs this installation."""

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

from models.reports import dead_letters as kept
from models.reports.dead_letters import ChangeResult, DeadLetter, Key, Scope
from models.store.base import connection, open_store
from models.store.migrate import create_schema
from pipeline.topology import build_segments, find_segment
from runtime import logs
from runtime.settings import Settings, load
from tocsin.commands.accounts import as_json_option
from tocsin.commands.output import format_table, to_printable
from tocsin.server.embedded_redis import get_url
from workers import queue

log = structlog.get_logger()

ACTOR = "the command line"
# Work that takes longer says how far it has come, that often.
PROGRESS_EVERY_S = 2.0

_UNPRINTABLE = re.compile(r"[^\n\t -~\u00a0-\u2027\u202f-\u2065\u2070-\ud7ff\ue000-\U0010ffff]")

service_option = click.option("--service", help="Only of the service with this name or unique_id.")
integration_option = click.option(
    "--integration", help="Only of the integration with this name or unique_id."
)
all_option = click.option("--all", "select_all", is_flag=True, help="All that is set aside.")
reference_argument = click.argument("reference", metavar="[TRACE_ID]", required=False)


@click.group(invoke_without_command=True)
@service_option
@integration_option
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="Show the last of them.")
@as_json_option
@click.pass_context
def dead_letters(
    context: click.Context, service: str | None, integration: str | None, limit: int, as_json: bool
) -> None:
    """See what was set aside with its error; take it up again, or drop it.

    Without a command: list it, newest last.
    """
    if context.invoked_subcommand is not None:
        if service or integration or as_json:
            raise click.UsageError(f"options of {context.invoked_subcommand} stand after it")
        return
    with _open_database():
        keys = kept.list_keys(Scope(service=service, integration=integration))
        shown = kept.load_all(keys[-limit:])
    if as_json:
        click.echo(
            json.dumps({"count": len(keys), "results": [_to_json(dead_letter) for dead_letter in shown]})
        )
        return
    for text in format_table([_build_row(dead_letter) for dead_letter in shown]):
        click.echo(text)
    click.echo(_format_total(len(shown), len(keys)))


@dead_letters.command()
@click.argument("reference", metavar="TRACE_ID")
@click.option("--body", "with_body", is_flag=True, help="Write the body as it was sent, and nothing else.")
@as_json_option
def show(reference: str, with_body: bool, as_json: bool) -> None:
    """Tell the error, and the road so far."""
    with _open_database():
        matches = kept.load_all(_find_keys(reference))
        body = kept.load_body(matches[0].trace_id) if with_body else None
    if body is not None:
        _write_body(body)
    elif as_json:
        click.echo(json.dumps([_to_json(dead_letter) for dead_letter in matches]))
    else:
        click.echo(
            "\n\n".join("\n".join(map(to_printable, _format_lines(dead_letter))) for dead_letter in matches)
        )


@dead_letters.command()
@reference_argument
@all_option
@service_option
@integration_option
@as_json_option
def replay(
    reference: str | None, select_all: bool, service: str | None, integration: str | None, as_json: bool
) -> None:
    """Take up again what was set aside, as if it had just come in.

    Exit code 1 when anything could not be taken up.
    """
    with _open_database() as settings:
        keys = _select_keys(reference, select_all, Scope(service=service, integration=integration))
        queue.connect(settings.redis_url or get_url(settings.home))
        progress = _apply_change(keys, kept.replay, "taken up again", settings)
    _report(progress, "taken up again", as_json)


@dead_letters.command()
@reference_argument
@all_option
@service_option
@integration_option
@click.option("--yes", is_flag=True, help="Do not ask.")
@as_json_option
def drop(
    reference: str | None,
    select_all: bool,
    service: str | None,
    integration: str | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Leave it at that: nobody will work on what was set aside any more.

    It can still be told, by `tocsin why`, as long as other alerts. Exit code 1 when nothing was dropped.
    """
    with _open_database() as settings:
        keys = _select_keys(reference, select_all, Scope(service=service, integration=integration))
        if keys and not yes and not _confirm(len(keys)):
            raise click.ClickException("nothing is dropped")
        progress = _apply_change(keys, kept.drop, "dropped", settings)
    _report(progress, "dropped", as_json)


@contextmanager
def _open_database() -> Iterator[Settings]:
    """The settings, with the database of these."""
    settings = load()
    logs.configure(settings.log_level, "dead-letters")
    open_store(settings.database_url, settings.home)
    create_schema(settings.home)
    with connection():
        yield settings


def _find_keys(reference: str) -> list[Key]:
    matches = kept.find_keys(reference.strip())
    if not matches:
        raise click.ClickException(f"nothing is set aside of {reference}")
    return matches


def _select_keys(reference: str | None, select_all: bool, scope: Scope) -> list[Key]:
    if bool(reference) == select_all:
        raise click.UsageError("say a TRACE_ID, or --all")
    if reference is None:
        return kept.list_keys(scope)
    if scope != kept.EVERYTHING:
        raise click.UsageError("--service and --integration go with --all")
    return _find_keys(reference)


def _confirm(count: int) -> bool:
    try:
        return click.confirm(f"Drop {count:,}, so that nobody ever works on them?", err=True)
    except click.Abort:
        raise click.ClickException("nothing is dropped: nobody is there to ask; say --yes") from None


@dataclass(slots=True)
class _Progress:
    """How far a change has come: of `total`, `done` are changed, and `orphans` cannot be."""

    total: int
    done: int = 0
    ownerless: int = 0
    seen: int = 0

    @property
    def conflicts(self) -> int:
        """Those that somebody else changed first."""
        return self.seen - self.done - self.ownerless


def _apply_change(
    keys: Sequence[Key], change: Callable[[Sequence[Key], str], ChangeResult], verb: str, settings: Settings
) -> _Progress:
    """Piece by piece, each in a transaction of its own, so that the lanes can go on between them."""
    progress = _Progress(len(keys))
    report_at = time.monotonic() + PROGRESS_EVERY_S
    for chunk in kept.split_keys(keys):
        changed = change(chunk, ACTOR)
        _enqueue(changed, settings.pipeline_queues)
        progress.seen += len(chunk)
        progress.done += len(changed.ids)
        progress.ownerless += changed.ownerless
        if changed.ids:
            log.info(verb, count=len(changed.ids), ids=changed.ids[:10])
        if time.monotonic() >= report_at and progress.seen < progress.total:
            click.echo(f"{progress.seen:,} of {progress.total:,} ...", err=True)
            report_at = time.monotonic() + PROGRESS_EVERY_S
    return progress


def _enqueue(changed: ChangeResult, splits: Sequence[str]) -> None:
    pipeline = build_segments(splits)
    for service, stage in changed.lanes:
        queue.enqueue_lane(service, find_segment(pipeline, stage).name if stage else pipeline[0].name)
    for router in changed.routers:
        queue.enqueue_router(router)


def _report(progress: _Progress, verb: str, as_json: bool) -> None:
    if as_json:
        result = {"done": progress.done, "ownerless": progress.ownerless, "conflicts": progress.conflicts}
        click.echo(json.dumps(result))
    else:
        click.echo(f"{progress.done:,} {verb}" if progress.total else "nothing is set aside")
    if progress.ownerless:
        click.echo(
            f"{progress.ownerless:,} came in by what was deleted since: they can only be dropped", err=True
        )
    if progress.conflicts:
        click.echo(f"{progress.conflicts:,} were taken up or dropped by somebody else meanwhile", err=True)
    sys.exit(1 if progress.ownerless or progress.conflicts else 0)


def _to_json(dead_letter: DeadLetter) -> dict[str, Any]:
    """For machines."""
    return {
        "id": dead_letter.id,
        "trace_id": dead_letter.trace_id,
        "position": dead_letter.position,
        "accepted_at": dead_letter.accepted_at.isoformat(),
        "error": dead_letter.error,
        "source": dead_letter.source,
        **{
            owner: reference._asdict() if (reference := getattr(dead_letter, owner)) else None
            for owner in ("service", "integration", "router")
        },
        "message": dead_letter.message,
        "stages": [{"stage": stage, "reason": reason} for stage, reason in dead_letter.stages],
        "body_bytes": dead_letter.size,
        "alerts": dead_letter.alerts,
    }


def _build_row(dead_letter: DeadLetter) -> tuple[str, ...]:
    return (
        _format_time(dead_letter.accepted_at),
        dead_letter.trace_id,
        _describe_part(dead_letter),
        _describe_owner(dead_letter),
        dead_letter.error,
    )


def _describe_part(dead_letter: DeadLetter) -> str:
    return (
        "whole body"
        if dead_letter.position is None
        else f"alert {dead_letter.position + 1} of {dead_letter.alerts}"
    )


def _describe_owner(dead_letter: DeadLetter) -> str:
    if dead_letter.service is None and dead_letter.router is not None:
        return f"router {dead_letter.router.name}"
    return " / ".join(
        reference.name if reference else "(deleted)"
        for reference in (dead_letter.service, dead_letter.integration)
    )


def _format_total(shown: int, total: int) -> str:
    if not total:
        return "nothing is set aside"
    return f"{total:,} set aside" if shown == total else f"the last {shown:,} of {total:,} set aside"


def _format_lines(dead_letter: DeadLetter) -> list[str]:
    lines = [
        f"set aside: {dead_letter.error}",
        f"{_describe_part(dead_letter)}, trace_id {dead_letter.trace_id}"
        + (f", unique_id {dead_letter.id}" if dead_letter.position is not None else ""),
        f"accepted {_format_time(dead_letter.accepted_at)} UTC ({dead_letter.source}) for"
        f" {_describe_owner(dead_letter)}",
        f"body of {dead_letter.size:,} bytes with {dead_letter.alerts:,} "
        f"alert{'s' if dead_letter.alerts != 1 else ''}",
    ]
    if dead_letter.message is not None:
        lines.append(f"message: {dead_letter.message}")
    return lines + [f"  {stage:<10} {reason}" for stage, reason in dead_letter.stages]


def _write_body(body: bytes) -> None:
    """As it is for a file or another program; for a terminal without what would steer it."""
    if sys.stdout.isatty():
        click.echo(_UNPRINTABLE.sub("\ufffd", body.decode("utf-8", "replace")))
    else:
        sys.stdout.buffer.write(body)


def _format_time(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S}"
