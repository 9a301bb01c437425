"""`tocsin why`: show the trace of an alert, and why a person was notified or not."""

import sys
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

import click

from models.domain.enums import WorkState
from models.domain.reason_texts import ENGLISH, PENDING_TIMERS
from models.reports import alert_answer, alert_trace, repeated_alerts, trace_ids
from models.reports.repeated_alerts import RepeatedIncident
from models.reports.trace_ids import FoundAlert
from models.store.store import store
from models.tables.accounts import Account
from models.tables.events import Receipt
from tocsin.commands.names import find_accounts
from tocsin.commands.options import accounts_option, as_json_option
from tocsin.commands.output import to_json, to_printable
from tocsin.commands.read_only import PROBLEMS_FOUND, BadArguments, open_read_only

JsonDict = dict[str, Any]

# The reasons of stages that say nothing new about an alert.
_NOTHING_NEW = {ENGLISH[code] for code in ("no_router", "no_alert_rules", "entity_is_new", "opens_incident")}


@click.command()
@click.argument("reference", metavar="TRACE_ID|INCIDENT|ALERT|last")
@click.option(
    "--page",
    type=click.IntRange(min=1),
    default=1,
    help=f"The page of a body with more than {alert_trace.PAGE_SIZE} alerts.",
)
@accounts_option
@as_json_option
def why(reference: str, page: int, account_id: str | None, as_json: bool) -> None:
    """Show who was notified of an alert, or why nobody was. Then show its stages and its incident.

    The alert is named by its trace_id or at least 8 characters of its beginning, by the number of its
    incident (12 or "#12": the alert that opened it), by its unique_id, or by the word last: the last one that
    was accepted. If the alert that opened an incident is not stored, only the incident is shown.

    Exit code 1: there is no such alert. 3: the database cannot be read.
    """
    with open_read_only() as settings:
        found = _find(reference, find_accounts(account_id))
        trace = trace_ids.build_trace_of(found, page) if found else None
        repeated = _find_repeated(found.receipt) if found and found.receipt else None
        kept_since = store().now() - timedelta(days=settings.keep_alerts)
    if found is None or trace is None:
        click.echo(to_printable(_describe_unknown(reference, kept_since)), err=True)
        sys.exit(PROBLEMS_FOUND)
    if as_json:
        click.echo(to_json({"answer": alert_answer.write_answer(trace, repeated), **trace}))
        return
    for text in _format_found(found, trace, repeated):
        click.echo(to_printable(text))
    left = trace["count"] - (page - 1) * alert_trace.PAGE_SIZE - len(trace["alerts"])
    if found.event is None and left > 0:
        click.echo(f"\n{left} more alerts: --page {page + 1}")
    elif found.event is not None and trace["count"] > 1:
        click.echo(f"\nthe same body has {trace['count'] - 1} more alerts: tocsin why {trace['trace_id']}")


def _find_repeated(receipt: Receipt) -> Sequence[RepeatedIncident] | None:
    """Return the incidents of the alerts that a body repeats. Few do, and reading one loads all sources."""
    if not repeated_alerts.is_repetition(receipt):
        return None
    from web.incidents.repeated_alerts import find_repeated

    return find_repeated(receipt)


def _find(reference: str, accounts: list[Account]) -> FoundAlert | None:
    number = trace_ids.parse_number(reference)
    if number is None:
        found = trace_ids.find_alert(reference, accounts)
        return found or trace_ids.find_by_beginning(reference, accounts)
    if len(accounts) > 1:
        known = ", ".join(f"{row.account_identifier} ({row.name})" for row in accounts)
        raise BadArguments(f"choose the account of incident #{number} with --account: {known}")
    return trace_ids.find_incident(number, accounts[0])


def _describe_unknown(reference: str, kept_since: datetime) -> str:
    number = trace_ids.parse_number(reference)
    if number is not None:
        return f"there is no incident #{number}"
    if reference.strip().lower() == trace_ids.LAST:
        return "no alert is stored"
    return (
        f"no alert with the trace_id or unique_id {reference} is stored; alerts accepted before"
        f" {_format_time(kept_since)} UTC were deleted, unless they are needed (TOCSIN_KEEP_ALERTS)"
    )


def _format_found(
    found: FoundAlert, trace: JsonDict, repeated: Sequence[RepeatedIncident] | None
) -> Iterator[str]:
    if found.receipt is None:
        yield "no alert that opened this incident is stored"
        yield from alert_answer.write_answer(trace)
        for incident in trace["incidents"]:
            yield ""
            yield from _format_incident(incident)
        return
    yield f"trace_id {trace['trace_id']}"
    yield from format_lines(trace, WorkState(found.receipt.state), repeated)


def format_lines(
    trace: JsonDict, state: WorkState, repeated: Sequence[RepeatedIncident] | None = None
) -> Iterator[str]:
    """Yield an alert trace as sentences, with times in UTC: the answer first. `state`: of the body.

    Leave out what says nothing new. --json has everything. `repeated` is as in alert_answer.write_answer().
    """
    yield from alert_answer.write_answer(trace, repeated)
    yield ""
    router = trace["router"]
    owner = f"router {router['name']}" if router else _get_name(trace["integration"])
    where = "" if router else f" for service {_get_name(trace['service'])}"
    yield (
        f"{trace['status']}: accepted {_format_time(trace['received_at'])} UTC by {owner}"
        f" ({trace['source']}){where}"
    )
    if trace["replayed_at"]:
        yield f"replayed {_format_time(trace['replayed_at'])} UTC"
    if progress := trace["progress"]:
        yield f"{progress['alerts_done']} of {progress['alerts']} alerts are processed"
    if trace["error"]:
        # Only dropped bodies are DONE with an error, which says so itself.
        yield trace["error"] if state is WorkState.DONE else f"dead letter: {trace['error']}"
    statuses = {each["incident_number"]: each["status"] for each in trace["incidents"]}
    for alert in trace["alerts"]:
        yield ""
        yield from _format_alert(alert, statuses)
    for incident in trace["incidents"]:
        yield ""
        yield from _format_incident(incident)


def _format_alert(alert: JsonDict, statuses: dict[int, str]) -> Iterator[str]:
    yield f"alert {alert['alert_type']}: {alert['message']}  [{alert['entity_id']}]"
    if alert["integration"]:
        yield f"  to {_get_name(alert['integration'])} of service {_get_name(alert['service'])}"
    yield from format_stages(alert)
    for rule in alert["rules"]:
        yield from format_rule(rule)
    if alert["pending_stage"]:
        yield f"  pending at {alert['pending_stage']}"
    if alert["error"]:
        yield f"  dead letter: {alert['error']}"
    if alert["incident"]:
        yield f"  {alert_answer.describe_incident_of(alert, statuses)}"
    if changed := alert["changed_before"]:
        yield f"  between this alert and the one before it ({_format_time(changed['previous_alert_at'])}):"
        for each in changed["changes"]:
            yield f"    {_format_time(each['at'])}  {each['what']}"


def format_stages(alert: JsonDict) -> Iterator[str]:
    """Yield the reason of each stage that says something new about an alert."""
    level_given = ENGLISH["entity_given"].format(level=alert["alert_type"])
    for step in alert["stages"]:
        if step["reason"] not in (*_NOTHING_NEW, level_given):
            yield f"  {step['stage']:<10} {step['reason']}"


def format_rule(rule: JsonDict) -> Iterator[str]:
    """Yield whether a rule matches an alert, which fields it read, and what its actions changed."""
    if "more" in rule:
        yield f"  {'rule':<10} and {rule['more']} more"
        return
    verdict = "matches" if rule["matches"] else "does not match"
    read = ", ".join(f"{name} = {value!r}" for name, value in rule["read"].items())
    note = f" ({rule['note']})" if "note" in rule else ""
    stopped = "; no later rule is evaluated" if rule.get("stop") else ""
    yield f"  {'rule':<10} {rule['description'] or rule['rule']}: {verdict}{note}{stopped}"
    if read:
        yield f"  {'':<10}   it read {read}"
    for action in rule.get("actions", ()):
        yield f"  {'':<10}   {action['action'].replace('_', ' ')}{_format_change(action)}"


def _format_change(action: JsonDict) -> str:
    if "to" not in action:
        return f": {action['note']}" if "note" in action else ""
    note = f" ({action['note']})" if "note" in action else ""
    before = f" from {action['from']!r}" if "from" in action else ""
    return f":{before} to {action['to']!r}{note}"


def _format_incident(incident: JsonDict) -> Iterator[str]:
    yield (
        f"incident #{incident['incident_number']} {incident['title']}:"
        f" {incident['status']}, {incident['urgency']} urgency"
    )
    for at, text in sorted(_list_entries(incident), key=lambda entry: entry[0]):
        yield f"  {_format_time(at)}  {text}"
    if incident["is_truncated"]:
        yield "  more entries are in the timeline of the incident"


# What a provider reported about a message later.
_REPORTED = {"sent": "was handed on", "delivered": "was delivered", "failed": "was not delivered"}


def _list_entries(incident: JsonDict) -> Iterator[tuple[datetime, str]]:
    """Yield the past and future entries of an incident, each with its time.

    The alert says that it opened the incident. The log says what a timer that fired has changed.
    """
    for entry in incident["log"]:
        if (entry["what"], entry["by"]) != ("opened", "alert"):
            yield entry["at"], entry["reason"]
    for entry in incident["stakeholders"]:
        yield entry["at"], entry["reason"]
    for timer in incident["timers"]:
        if timer["done_at"] is None:
            yield timer["due_at"], PENDING_TIMERS[timer["kind"]]
    for delivery in incident["deliveries"]:
        for attempt in delivery["attempts"]:
            if attempt["outcome"] != "sent":
                failed = f"the attempt to send to {delivery['person']} failed"
                yield attempt["at"], f"{failed}: {attempt['detail']}"
            elif attempt["reported_at"] is not None:
                state, to = _REPORTED[attempt["provider_state"]], delivery["person"]
                yield attempt["reported_at"], f"the message to {to} {state}, says {attempt['provider']}"
        yield delivery["done_at"] or delivery["not_before"], delivery["sentence"]


def _format_time(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S}"


def _get_name(thing: JsonDict | None) -> str:
    return thing["name"] if thing else "(deleted)"
