"""`python -m bench.lists`: how long lists of incidents take over HTTP, with 100,000 of them."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from datetime import timedelta
from http.client import HTTPConnection, HTTPException
from time import perf_counter
from typing import Any

import click

from bench.instance import Instance, NotUp, own_instance
from bench.past import TEAMS, Past, written
from bench.postgres import NoServer, own_database
from bench.report import machine_line, this_machine
from bench.run import percentile
from models.base import connection, db, open_store, store

# What is promised (design, section 8): the 95th percentile of each question.
BUDGET_MS = 150.0
INCIDENTS = 100_000
TIMES = 60
WARM_UP = 3

FILTER = "/api/incidents/filter/"

Body = dict[str, Any] | None
Limit = Callable[[Past, int], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Question:
    """`asks` gives the path and the body of the nth time; a body is posted."""

    name: str
    asks: Callable[[Past, int], tuple[str, Body]]
    # Asked by somebody who is in five of the fifty teams, not by the account's owner.
    as_member: bool = False
    client: bool = False


def by(name: str, limit: Limit, part: float = 0.0, size: int = 10, **more: Any) -> Question:
    """By a filter: the page that lies so far within all incidents of the account."""
    return Question(name, lambda past, n: (FILTER + _page(past, part, size), limit(past, n)), **more)


def got(name: str, path: Callable[[Past, int], str], **more: Any) -> Question:
    return Question(name, lambda past, n: (path(past, n), None), **more)


def _everything(past: Past, n: int) -> dict[str, Any]:
    return {"status": 0}


def _month(past: Past, n: int) -> dict[str, Any]:
    start = past.begun_at + timedelta(days=30 * (n % 36))
    return {"status": 0, "from_date": start.isoformat(), "to_date": (start + timedelta(days=30)).isoformat()}


def _team(past: Past, n: int) -> Any:
    return past.teams[n % len(past.teams)]


def _many(past: Past, n: int) -> dict[str, Any]:
    team = _team(past, n)
    return {
        **_month(past, n),
        "status": 3,
        "team_ids": [team.unique_id],
        "user_ids": [user.username for user in past.users[:10]],
        "priority_name": "P2",
        "tag_ids": [tag.unique_id for tag in past.tags[team.id]],
    }


def _page(past: Past, part: float, size: int = 10) -> str:
    return f"?page={max(1, round(past.incidents * part / size))}&page_size={size}"


def _of_integration(past: Past, n: int) -> str:
    place = n % len(past.services)
    service, integration = past.services[place], past.integrations[place]
    return (
        f"/api/account/teams/{service.team.unique_id}/services/{service.unique_id}"
        f"/integrations/{integration.unique_id}/alerts/?page=1"
    )


QUESTIONS = (
    by("filter: triggered (default)", lambda past, n: {}),
    by("filter: open", lambda past, n: {"status": -1}),
    by("filter: resolved", lambda past, n: {"status": 3}),
    by("filter: all", _everything),
    by("filter: all, middle page", _everything, 0.5),
    by("filter: all, last page", _everything, 1),
    by("filter: all, last page of 100", _everything, 1, 100),
    by("filter: one team", lambda past, n: {"status": 0, "team_ids": [_team(past, n).unique_id]}),
    by(
        "filter: one team, deep",
        lambda past, n: {"status": 0, "team_ids": [_team(past, n).unique_id]},
        0.75 / TEAMS,
    ),
    by(
        "filter: twenty teams",
        lambda past, n: {"status": 0, "team_ids": [team.unique_id for team in past.teams[:20]]},
    ),
    by("filter: one service", lambda past, n: {"status": 0, "service_ids": [past.services[n].unique_id]}),
    by("filter: one user", lambda past, n: {"status": 0, "user_ids": [past.users[n % 50].username]}),
    by(
        "filter: one tag",
        lambda past, n: {"status": 0, "tag_ids": [past.tags[_team(past, n).id][n % 5].unique_id]},
    ),
    by(
        "filter: tags of all teams",
        lambda past, n: {"status": 0, "tag_ids": [tags[n % 5].unique_id for tags in past.tags.values()]},
    ),
    by("filter: priority name", lambda past, n: {"status": 0, "priority_name": f"P{n % 5 + 1}"}),
    by(
        "filter: SLA and policy",
        lambda past, n: {
            "status": 0,
            "sla_ids": [past.slas[_team(past, n).id].unique_id],
            "escalation_policy_ids": [past.policies[n % 50].unique_id],
        },
    ),
    by("filter: a month", _month),
    by("filter: no postmortem", lambda past, n: {"status": 0, "postmortem_filter": 0}),
    by("filter: with a postmortem", lambda past, n: {"status": 0, "postmortem_filter": 1}),
    by("filter: many limits", _many),
    by("filter: finds nothing", lambda past, n: {"status": 0, "tag_ids": ["none"], "user_ids": ["none"]}),
    by("member: triggered", lambda past, n: {}, as_member=True),
    by("member: all", _everything, as_member=True),
    by("member: all, deep", _everything, 0.09, as_member=True),
    got("list, first page", lambda past, n: "/api/incidents/", client=True),
    got("list, last page", lambda past, n: "/api/incidents/" + _page(past, 1), client=True),
    got("member: list", lambda past, n: "/api/incidents/", client=True, as_member=True),
    got("one incident", lambda past, n: f"/api/incidents/{n + 1}/"),
    got("500 notes", lambda past, n: "/api/incidents/1/note/"),
    got("notes, last page", lambda past, n: "/api/incidents/1/note/?page=50", client=True),
    got("2,000 alerts, first page", lambda past, n: "/api/incidents/1/alerts/", client=True),
    got("2,000 alerts, last page", lambda past, n: "/api/incidents/1/alerts/?page=200", client=True),
    got("alerts of an integration", _of_integration),
)


@dataclass(frozen=True, slots=True)
class Answered:
    """`found` is how many came in the last answer."""

    question: str
    found: int
    p50_ms: float
    p95_ms: float


def _asked(instance: Instance, past: Past, question: Question) -> Answered:
    """Raises NotUp, with what the instance said last, when it went away meanwhile."""
    try:
        return ask(instance, past, question)
    except (OSError, HTTPException) as error:
        raise NotUp(f"{question.name}: {error!r}\n{instance.log.read_text()[-2000:]}") from None


def ask(instance: Instance, past: Past, question: Question) -> Answered:
    """One connection, kept alive, one question after the other."""
    token = past.member if question.as_member else instance.credentials()["token"]
    word = "Token" if question.client else "Bearer"
    headers = {"Authorization": f"{word} {token}", "Content-Type": "application/json"}
    link = HTTPConnection("127.0.0.1", instance.port, timeout=60)
    waits = []
    for n in range(TIMES + WARM_UP):
        path, body = question.asks(past, n)
        begun = perf_counter()
        link.request(
            "GET" if body is None else "POST", path, None if body is None else json.dumps(body), headers
        )
        answer = link.getresponse()
        text = answer.read()
        waits.append(1000 * (perf_counter() - begun))
        if answer.status != 200:
            raise click.ClickException(f"{question.name}: {answer.status} {text[:200]!r}")
    link.close()
    said = json.loads(text)
    found = len(said["results"]) if isinstance(said, dict) and "results" in said else len(said)
    ordered = sorted(waits[WARM_UP:])
    return Answered(question.name, found, percentile(ordered, 50), percentile(ordered, 95))


@contextmanager
def filled(server: str, incidents: int) -> Iterator[tuple[Instance, Past]]:
    """An instance of one's own with a past: on a fresh database of a server, or on SQLite where it is ""."""
    with ExitStack() as ending:
        url = ending.enter_context(own_database(server)).url if server else ""
        instance, _ = ending.enter_context(own_instance(**({"database_url": url} if url else {})))
        open_store(url, instance.home)
        ending.callback(db.close_all)
        past = written(incidents, instance.credentials()["account_id"])
        with connection():
            # What the server does by itself within minutes of such a load.
            db.execute_sql("VACUUM ANALYZE" if store().name == "postgresql" else "PRAGMA wal_checkpoint")
        yield instance, past


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--server",
    envvar="TEST_DATABASE_URL",
    default="postgresql:///postgres",
    show_default=True,
    help='Where databases may be made; "" leaves PostgreSQL out.',
)
@click.option("--incidents", default=INCIDENTS, show_default=True)
@click.option("--json", "as_machine", is_flag=True, help="For machines.")
def main(server: str, incidents: int, as_machine: bool) -> None:
    """Ask the typical questions of instances with a long past. Exit code 1 when one is over its budget."""
    results: dict[str, list[Answered]] = {}
    for name, where in (("SQLite", ""), ("PostgreSQL", server)):
        if name == "PostgreSQL" and not server:
            continue
        try:
            with filled(where, incidents) as (instance, past):
                results[name] = [_asked(instance, past, question) for question in QUESTIONS]
        except (NoServer, NotUp) as error:
            click.echo(f"{name}: not measured: {error}", err=True)
    machine = this_machine()
    if as_machine:
        shown = {name: [asdict(one) for one in answers] for name, answers in results.items()}
        click.echo(json.dumps({"incidents": incidents, "machine": machine, "lists": shown}, indent=2))
    else:
        click.echo(f"{_table(results)}\n\n{incidents:,} incidents; {machine_line(machine)}")
    slow = [
        f"{name}, {one.question}"
        for name, every in results.items()
        for one in every
        if one.p95_ms > BUDGET_MS
    ]
    if slow or len(results) < 1 + bool(server):
        click.echo(f"over {BUDGET_MS:.0f} ms at the 95th percentile: {'; '.join(slow)}", err=True)
        sys.exit(1)


def _table(results: dict[str, list[Answered]]) -> str:
    lines = [f"{'':32}" + "".join(f"{name + ' p50':>16}{'p95 ms':>8}" for name in results)]
    for place, question in enumerate(QUESTIONS):
        cells = [answers[place] for answers in results.values()]
        lines.append(f"{question.name:32}" + "".join(f"{one.p50_ms:16.1f}{one.p95_ms:8.1f}" for one in cells))
    return "\n".join(lines)


if __name__ == "__main__":
    main()
