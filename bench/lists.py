"""`python -m bench.lists`: measure lists of incidents over HTTP, with 100,000 incidents."""

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

from bench.data.sample_data import TEAMS, SampleData, write_sample_data
from bench.report import describe_machine, format_machine
from bench.run import percentile
from bench.servers.instance import Instance, NotReady, start_own_instance
from bench.servers.postgres import ServerUnavailable, create_own_database
from models.store.opening import open_store
from models.store.store import connection, db, store

# The budget: the 95th percentile of each question.
BUDGET_MS = 150.0
INCIDENTS = 100_000
TIMES = 60
WARM_UP = 3

FILTER = "/api/incidents/filter/"

Body = dict[str, Any] | None
Limit = Callable[[SampleData, int], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Question:
    """`build_request` returns path and body of request number n. A request with a body is a POST."""

    name: str
    build_request: Callable[[SampleData, int], tuple[str, Body]]
    # Sent by a member of five of the fifty teams, not by the owner of the account.
    as_member: bool = False
    client: bool = False


def ask_filter(name: str, limit: Limit, depth: float = 0.0, size: int = 10, **more: Any) -> Question:
    """Build a filter question. `depth` selects the page, as a fraction of all incidents of the account."""
    return Question(
        name, lambda data, n: (FILTER + _build_page_query(data, depth, size), limit(data, n)), **more
    )


def ask_path(name: str, path: Callable[[SampleData, int], str], **more: Any) -> Question:
    return Question(name, lambda data, n: (path(data, n), None), **more)


def ask_analytics(name: str, kind: str, limit: Limit, **more: Any) -> Question:
    path = f"/api/v2/account/analytics/{kind}/"
    return Question(name, lambda data, n: (path, limit(data, n)), **more)


def _limit_none(data: SampleData, n: int) -> dict[str, Any]:
    return {"status": 0}


def _limit_month(data: SampleData, n: int) -> dict[str, Any]:
    start = data.started_at + timedelta(days=30 * (n % 36))
    return {"status": 0, "from_date": start.isoformat(), "to_date": (start + timedelta(days=30)).isoformat()}


def _limit_year(data: SampleData, n: int) -> dict[str, Any]:
    """Return a period of 366 days: a third of all incidents."""
    first = data.started_at + timedelta(days=n)
    return {
        "from_date": first.date().isoformat(),
        "to_date": (first + timedelta(days=365)).date().isoformat(),
    }


def _limit_year_and_times(data: SampleData, n: int) -> dict[str, Any]:
    times = {"tta": 300, "tta_comparator": "lt", "ttr": 86_400, "ttr_comparator": "lt"}
    return {**_limit_year(data, n), **times, "urgency": 1, "child_incident": "exclude"}


def _get_team(data: SampleData, n: int) -> Any:
    return data.teams[n % len(data.teams)]


def _limit_many(data: SampleData, n: int) -> dict[str, Any]:
    team = _get_team(data, n)
    return {
        **_limit_month(data, n),
        "status": 3,
        "team_ids": [team.unique_id],
        "user_ids": [user.username for user in data.users[:10]],
        "priority_name": "P2",
        "tag_ids": [tag.unique_id for tag in data.tags[team.id]],
    }


def _build_page_query(data: SampleData, depth: float, size: int = 10) -> str:
    return f"?page={max(1, round(data.incidents * depth / size))}&page_size={size}"


def _build_alerts_path(data: SampleData, n: int) -> str:
    place = n % len(data.services)
    service, integration = data.services[place], data.integrations[place]
    return (
        f"/api/account/teams/{service.team.unique_id}/services/{service.unique_id}"
        f"/integrations/{integration.unique_id}/alerts/?page=1"
    )


QUESTIONS = (
    ask_filter("filter: triggered (default)", lambda data, n: {}),
    ask_filter("filter: open", lambda data, n: {"status": -1}),
    ask_filter("filter: resolved", lambda data, n: {"status": 3}),
    ask_filter("filter: all", _limit_none),
    ask_filter("filter: all, middle page", _limit_none, 0.5),
    ask_filter("filter: all, last page", _limit_none, 1),
    ask_filter("filter: all, last page of 100", _limit_none, 1, 100),
    ask_filter("filter: one team", lambda data, n: {"status": 0, "team_ids": [_get_team(data, n).unique_id]}),
    ask_filter(
        "filter: one team, deep",
        lambda data, n: {"status": 0, "team_ids": [_get_team(data, n).unique_id]},
        0.75 / TEAMS,
    ),
    ask_filter(
        "filter: twenty teams",
        lambda data, n: {"status": 0, "team_ids": [team.unique_id for team in data.teams[:20]]},
    ),
    ask_filter(
        "filter: one service", lambda data, n: {"status": 0, "service_ids": [data.services[n].unique_id]}
    ),
    ask_filter("filter: one user", lambda data, n: {"status": 0, "user_ids": [data.users[n % 50].username]}),
    ask_filter(
        "filter: one tag",
        lambda data, n: {"status": 0, "tag_ids": [data.tags[_get_team(data, n).id][n % 5].unique_id]},
    ),
    ask_filter(
        "filter: tags of all teams",
        lambda data, n: {"status": 0, "tag_ids": [tags[n % 5].unique_id for tags in data.tags.values()]},
    ),
    ask_filter("filter: priority name", lambda data, n: {"status": 0, "priority_name": f"P{n % 5 + 1}"}),
    ask_filter(
        "filter: SLA and policy",
        lambda data, n: {
            "status": 0,
            "sla_ids": [data.slas[_get_team(data, n).id].unique_id],
            "escalation_policy_ids": [data.policies[n % 50].unique_id],
        },
    ),
    ask_filter("filter: a month", _limit_month),
    ask_filter("filter: no postmortem", lambda data, n: {"status": 0, "postmortem_filter": 0}),
    ask_filter("filter: with a postmortem", lambda data, n: {"status": 0, "postmortem_filter": 1}),
    ask_filter("filter: many limits", _limit_many),
    ask_filter(
        "filter: finds nothing", lambda data, n: {"status": 0, "tag_ids": ["none"], "user_ids": ["none"]}
    ),
    ask_filter("member: triggered", lambda data, n: {}, as_member=True),
    ask_filter("member: all", _limit_none, as_member=True),
    ask_filter("member: all, deep", _limit_none, 0.09, as_member=True),
    ask_path("list, first page", lambda data, n: "/api/incidents/", client=True),
    ask_path("list, last page", lambda data, n: "/api/incidents/" + _build_page_query(data, 1), client=True),
    ask_path("member: list", lambda data, n: "/api/incidents/", client=True, as_member=True),
    ask_analytics("analytics: by status, a year", "incident_stats", _limit_year),
    ask_analytics("analytics: by team, a year", "team_analytics", _limit_year),
    ask_analytics("analytics: by service, a year", "service_analytics", _limit_year),
    ask_analytics("analytics: by user, a year", "user_analytics", _limit_year),
    ask_analytics("analytics: limits, a year", "team_analytics", _limit_year_and_times),
    ask_analytics("member: analytics, a year", "team_analytics", _limit_year, as_member=True),
    ask_path("one incident", lambda data, n: f"/api/incidents/{n + 1}/"),
    ask_path("500 notes", lambda data, n: "/api/incidents/1/note/"),
    ask_path("notes, last page", lambda data, n: "/api/incidents/1/note/?page=50", client=True),
    ask_path("2,000 alerts, first page", lambda data, n: "/api/incidents/1/alerts/", client=True),
    ask_path("2,000 alerts, last page", lambda data, n: "/api/incidents/1/alerts/?page=200", client=True),
    ask_path("alerts of an integration", _build_alerts_path),
)


@dataclass(frozen=True, slots=True)
class Timing:
    """`found` is the number of rows in the last answer."""

    question: str
    found: int
    p50_ms: float
    p95_ms: float


def _time_or_fail(instance: Instance, data: SampleData, question: Question) -> Timing:
    """Time a question. Raise NotReady with the last output if the instance stopped."""
    try:
        return time_question(instance, data, question)
    except (OSError, HTTPException) as error:
        raise NotReady(f"{question.name}: {error!r}\n{instance.log.read_text()[-2000:]}") from None


def time_question(instance: Instance, data: SampleData, question: Question) -> Timing:
    """Send the requests one after another over one keep-alive connection."""
    token = data.member_token if question.as_member else instance.credentials()["token"]
    scheme = "Token" if question.client else "Bearer"
    headers = {"Authorization": f"{scheme} {token}", "Content-Type": "application/json"}
    client = HTTPConnection("127.0.0.1", instance.port, timeout=60)
    times_ms = []
    for n in range(TIMES + WARM_UP):
        path, body = question.build_request(data, n)
        started_time = perf_counter()
        client.request(
            "GET" if body is None else "POST", path, None if body is None else json.dumps(body), headers
        )
        answer = client.getresponse()
        text = answer.read()
        times_ms.append(1000 * (perf_counter() - started_time))
        if answer.status != 200:
            raise click.ClickException(f"{question.name}: {answer.status} {text[:200]!r}")
    client.close()
    parsed = json.loads(text)
    found = len(parsed["results"]) if isinstance(parsed, dict) and "results" in parsed else len(parsed)
    ordered = sorted(times_ms[WARM_UP:])
    return Timing(question.name, found, percentile(ordered, 50), percentile(ordered, 95))


@contextmanager
def start_with_data(server: str, incidents: int) -> Iterator[tuple[Instance, SampleData]]:
    """Start an instance with sample data on a new PostgreSQL database, or on SQLite if `server` is ""."""
    with ExitStack() as stack:
        url = stack.enter_context(create_own_database(server)).url if server else ""
        instance, _ = stack.enter_context(start_own_instance(**({"database_url": url} if url else {})))
        open_store(url, instance.home)
        stack.callback(db.close_all)
        data = write_sample_data(incidents, instance.credentials()["account_id"])
        with connection():
            # A database in production does this itself within minutes of such a load.
            db.execute_sql(store().upkeep_sql)
        yield instance, data


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--server",
    envvar="TEST_DATABASE_URL",
    default="postgresql:///postgres",
    show_default=True,
    help='Server on which databases may be created; "": no PostgreSQL.',
)
@click.option("--incidents", default=INCIDENTS, show_default=True)
@click.option("--json", "as_machine", is_flag=True, help="Print JSON.")
def main(server: str, incidents: int, as_machine: bool) -> None:
    """Measure typical list requests with much data. Exit code 1 if one is over the budget."""
    results: dict[str, list[Timing]] = {}
    for name, where in (("SQLite", ""), ("PostgreSQL", server)):
        if name == "PostgreSQL" and not server:
            continue
        try:
            with start_with_data(where, incidents) as (instance, data):
                results[name] = [_time_or_fail(instance, data, question) for question in QUESTIONS]
        except (ServerUnavailable, NotReady) as error:
            click.echo(f"{name}: not measured: {error}", err=True)
    machine = describe_machine()
    if as_machine:
        shown = {name: [asdict(one) for one in timings] for name, timings in results.items()}
        click.echo(json.dumps({"incidents": incidents, "machine": machine, "lists": shown}, indent=2))
    else:
        click.echo(f"{_format_table(results)}\n\n{incidents:,} incidents; {format_machine(machine)}")
    slow = [
        f"{name}, {one.question}"
        for name, every in results.items()
        for one in every
        if one.p95_ms > BUDGET_MS
    ]
    if slow or len(results) < 1 + bool(server):
        click.echo(f"over {BUDGET_MS:.0f} ms at the 95th percentile: {'; '.join(slow)}", err=True)
        sys.exit(1)


def _format_table(results: dict[str, list[Timing]]) -> str:
    lines = [f"{'':32}" + "".join(f"{name + ' p50':>16}{'p95 ms':>8}" for name in results)]
    for place, question in enumerate(QUESTIONS):
        cells = [timings[place] for timings in results.values()]
        lines.append(f"{question.name:32}" + "".join(f"{one.p50_ms:16.1f}{one.p95_ms:8.1f}" for one in cells))
    return "\n".join(lines)


if __name__ == "__main__":
    main()
