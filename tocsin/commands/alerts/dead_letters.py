"""`tocsin dead-letters`: list, replay and drop alerts that Tocsin could not process."""

import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

import click

from models.reports import dead_letters
from models.reports.dead_letters import DeadLetter, Key, Scope
from models.store.migrate import require_schema
from models.store.opening import open_store
from models.store.store import connection
from models.write import change_dead_letters
from models.write.change_dead_letters import ChangeResult
from runtime.late_logs import LateLogger, configure_later
from runtime.redis_socket import get_url
from runtime.settings import Settings, load
from tocsin.commands.options import as_json_option
from tocsin.commands.output import format_table, get_width, print_json, print_json_list, to_printable
from tocsin.commands.read_only import require_data
from workers import queue

log = LateLogger()

AUTHOR = "the command line"
NO_DEAD_LETTERS = "no dead letters"
# Longer work prints its progress at this interval.
PROGRESS_EVERY_S = 2.0

_UNPRINTABLE = re.compile(r"[^\n\t -~\u00a0-\u2027\u202f-\u2065\u2070-\ud7ff\ue000-\U0010ffff]")

service_option = click.option(
    "--service", help="Only dead letters of the service with this name or unique_id."
)
integration_option = click.option(
    "--integration", help="Only dead letters of the integration with this name or unique_id."
)
all_option = click.option("--all", "select_all", is_flag=True, help="All dead letters.")
reference_argument = click.argument("reference", metavar="[TRACE_ID]", required=False)


@click.group("dead-letters", invoke_without_command=True)
@service_option
@integration_option
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=50,
    show_default=True,
    help="List at most this many, the newest ones.",
)
@as_json_option
@click.pass_context
def dead_letters_group(
    context: click.Context, service: str | None, integration: str | None, limit: int, as_json: bool
) -> None:
    """List, replay or drop dead letters: alerts that Tocsin could not process.

    Without a command: list them, newest last.
    """
    if context.invoked_subcommand is not None:
        if service or integration or as_json:
            raise click.UsageError(f"write the options of {context.invoked_subcommand} after this word")
        return
    with _open_database():
        keys = dead_letters.list_keys(Scope(service=service, integration=integration))
        shown = dead_letters.load_all(keys[-limit:])
    if as_json:
        print_json_list(map(_to_json, shown), count=len(keys))
        return
    for text in format_table([_build_row(dead_letter) for dead_letter in shown], (), get_width()):
        click.echo(text)
    click.echo(_format_total(len(shown), len(keys)))


@dead_letters_group.command()
@click.argument("reference", metavar="TRACE_ID")
@click.option("--body", "with_body", is_flag=True, help="Write only the body, as it was sent.")
@as_json_option
def show(reference: str, with_body: bool, as_json: bool) -> None:
    """Show the error of a dead letter, and the stages that it has passed through."""
    with _open_database():
        matches = dead_letters.load_all(_find_keys(reference))
        body = dead_letters.load_body(matches[0].trace_id) if with_body else None
    if body is not None:
        _write_body(body)
    elif as_json:
        print_json_list(map(_to_json, matches))
    else:
        click.echo(
            "\n\n".join("\n".join(map(to_printable, _format_lines(dead_letter))) for dead_letter in matches)
        )


@dead_letters_group.command()
@reference_argument
@all_option
@service_option
@integration_option
@as_json_option
def replay(
    reference: str | None, select_all: bool, service: str | None, integration: str | None, as_json: bool
) -> None:
    """Replay dead letters: process them again as if they had just arrived.

    Exit code 1: at least one dead letter was not replayed.
    """
    with _open_database() as settings:
        keys = _select_keys(reference, select_all, Scope(service=service, integration=integration))
        with queue.connected(settings.redis_url or get_url(settings.home)):
            progress = _apply_change(keys, change_dead_letters.replay, "replayed", settings)
    _report(progress, "replayed", as_json)


@dead_letters_group.command()
@reference_argument
@all_option
@service_option
@integration_option
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@as_json_option
def drop(
    reference: str | None,
    select_all: bool,
    service: str | None,
    integration: str | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Drop dead letters: Tocsin will never process them.

    `tocsin why` can show them as long as other alerts. Exit code 1: at least one dead letter was not dropped.
    """
    with _open_database() as settings:
        keys = _select_keys(reference, select_all, Scope(service=service, integration=integration))
        if keys and not yes and not _confirm(len(keys)):
            raise click.ClickException("no dead letter was dropped")
        progress = _apply_change(keys, change_dead_letters.drop, "dropped", settings)
    _report(progress, "dropped", as_json)


@contextmanager
def _open_database() -> Iterator[Settings]:
    """Open the database and return the settings."""
    settings = load()
    configure_later(settings.log_level, "dead-letters")
    require_data(settings)
    open_store(settings.database_url, settings.home)
    require_schema()
    with connection():
        yield settings


def _find_keys(reference: str) -> list[Key]:
    matches = dead_letters.find_keys(reference.strip())
    if not matches:
        raise click.ClickException(f"there is no dead letter {reference}")
    return matches


def _select_keys(reference: str | None, select_all: bool, scope: Scope) -> list[Key]:
    if bool(reference) == select_all:
        raise click.UsageError("give a TRACE_ID or --all")
    if reference is None:
        return dead_letters.list_keys(scope)
    if scope != dead_letters.EVERYTHING:
        raise click.UsageError("--service and --integration require --all")
    return _find_keys(reference)


def _confirm(count: int) -> bool:
    try:
        return click.confirm(f"Drop {count:,} dead letters, so that they are never processed?", err=True)
    except click.Abort:
        raise click.ClickException("no dead letter was dropped: use --yes to confirm") from None


@dataclass(slots=True)
class _Progress:
    """The progress of a change of `total` dead letters: `seen` are handled and `done` of them are changed.

    `owner_deleted` ones cannot be replayed because their service, integration or router is deleted.
    """

    total: int
    done: int = 0
    owner_deleted: int = 0
    seen: int = 0

    @property
    def conflicts(self) -> int:
        """The number of dead letters that another process or user replayed or dropped first."""
        return self.seen - self.done - self.owner_deleted


def _apply_change(
    keys: Sequence[Key], change: Callable[[Sequence[Key], str], ChangeResult], verb: str, settings: Settings
) -> _Progress:
    """Change dead letters in chunks, each in its own transaction, so that workers can go on in between."""
    progress = _Progress(len(keys))
    report_at = time.monotonic() + PROGRESS_EVERY_S
    for chunk in change_dead_letters.split_keys(keys):
        changed = change(chunk, AUTHOR)
        _enqueue(changed, settings.pipeline_queues)
        progress.seen += len(chunk)
        progress.done += len(changed.ids)
        progress.owner_deleted += changed.owner_deleted
        if changed.ids:
            log.info(verb, count=len(changed.ids), ids=changed.ids[:10])
        if time.monotonic() >= report_at and progress.seen < progress.total:
            click.echo(f"{progress.seen:,} of {progress.total:,} ...", err=True)
            report_at = time.monotonic() + PROGRESS_EVERY_S
    return progress


def _enqueue(changed: ChangeResult, splits: Sequence[str]) -> None:
    from pipeline.topology import build_segments, find_segment

    pipeline = build_segments(splits)
    for service, stage in changed.lanes:
        queue.enqueue_lane(service, find_segment(pipeline, stage).name if stage else pipeline[0].name)
    for router in changed.routers:
        queue.enqueue_router(router)


def _report(progress: _Progress, verb: str, as_json: bool) -> None:
    if as_json:
        result = {
            "done": progress.done,
            "owner_deleted": progress.owner_deleted,
            "conflicts": progress.conflicts,
        }
        print_json(result)
    else:
        click.echo(f"{progress.done:,} {verb}" if progress.total else NO_DEAD_LETTERS)
    if progress.owner_deleted:
        click.echo(
            f"{progress.owner_deleted:,} came through a deleted service, integration or router:"
            " they can only be dropped",
            err=True,
        )
    if progress.conflicts:
        click.echo(
            f"{progress.conflicts:,} were replayed or dropped by another user in the meantime", err=True
        )
    sys.exit(1 if progress.owner_deleted or progress.conflicts else 0)


def _to_json(dead_letter: DeadLetter) -> dict[str, object]:
    return {
        "id": dead_letter.id,
        "trace_id": dead_letter.trace_id,
        "position": dead_letter.position,
        "accepted_at": dead_letter.accepted_at,
        "error": str(dead_letter.error),
        "source": dead_letter.source,
        **{
            owner: reference._asdict() if (reference := getattr(dead_letter, owner)) else None
            for owner in ("service", "integration", "router")
        },
        "message": dead_letter.message,
        "stages": [{"stage": stage, "reason": str(reason)} for stage, reason in dead_letter.stages],
        "body_bytes": dead_letter.size,
        "alerts": dead_letter.alerts,
    }


def _build_row(dead_letter: DeadLetter) -> tuple[str, ...]:
    return (
        _format_time(dead_letter.accepted_at),
        dead_letter.trace_id,
        _describe_position(dead_letter),
        _describe_owner(dead_letter),
        str(dead_letter.error),
    )


def _describe_position(dead_letter: DeadLetter) -> str:
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
        return NO_DEAD_LETTERS
    noun = "dead letter" if total == 1 else "dead letters"
    return f"{total:,} {noun}" if shown == total else f"the last {shown:,} of {total:,} {noun}"


def _format_lines(dead_letter: DeadLetter) -> list[str]:
    lines = [
        f"dead letter: {dead_letter.error}",
        f"{_describe_position(dead_letter)}, trace_id {dead_letter.trace_id}"
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
    """Write the body unchanged to a file or program, and to a terminal without control characters."""
    if sys.stdout.isatty():
        click.echo(_UNPRINTABLE.sub("\ufffd", body.decode("utf-8", "replace")))
    else:
        sys.stdout.buffer.write(body)


def _format_time(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S}"
