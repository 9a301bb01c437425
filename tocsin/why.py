"""`tocsin why TRACE_ID`: why somebody was, or was not, told, for a terminal."""

import sys
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import click

from models import aside, recorder
from tocsin.people import as_json_option
from tocsin.reading import FOUND, reading
from tocsin.table import as_json_text, plain

Told = dict[str, Any]


@click.command()
@click.argument("trace_id")
@as_json_option
def why(trace_id: str, as_json: bool) -> None:
    """Tell the road of an alert, its incident, timers and deliveries."""
    with reading():
        receipt = recorder.receipt_of(trace_id.strip().lower())
        story = recorder.story(receipt) if receipt else None
    if story is None:
        click.echo(plain(f"no alert with the trace_id {trace_id} (kept for 30 days)"), err=True)
        sys.exit(FOUND)
    if as_json:
        click.echo(as_json_text(story))
        return
    for line in lines(story):
        click.echo(plain(line))


def lines(story: Told) -> Iterator[str]:
    """A story as lines of text; moments in UTC."""
    router = story["router"]
    whose = f"router {router['name']}" if router else _name(story["integration"])
    where = "" if router else f" for service {_name(story['service'])}"
    yield (
        f"{story['status']}: accepted {_moment(story['received_at'])} UTC by {whose}"
        f" ({story['source']}){where}"
    )
    if story["replayed_at"]:
        yield f"taken up again {_moment(story['replayed_at'])} UTC"
    if story["error"]:
        yield story["error"] if story["error"].startswith(aside.DROPPED) else f"set aside: {story['error']}"
    for alert in story["alerts"]:
        yield ""
        yield from _alert(alert)
    for incident in story["incidents"]:
        yield ""
        yield from _incident(incident)


def _alert(alert: Told) -> Iterator[str]:
    yield f"alert {alert['alert_type']}: {alert['message']}  [{alert['entity_id']}]"
    if alert["integration"]:
        yield f"  to {_name(alert['integration'])} of service {_name(alert['service'])}"
    for step in alert["road"]:
        yield f"  {step['stage']:<10} {step['reason']}"
    for rule in alert["rules"]:
        yield from rule_lines(rule)
    if alert["waits_at"]:
        yield f"  waits at {alert['waits_at']}"
    if alert["error"]:
        yield f"  set aside: {alert['error']}"
    if alert["incident"]:
        verb = "opened" if alert["incident_created"] else "belongs to"
        yield f"  {verb} incident #{alert['incident']}"


def rule_lines(rule: Told) -> Iterator[str]:
    """What a rule said of an alert, what it read of it, and what its actions changed."""
    if "more" in rule:
        yield f"  {'rule':<10} and {rule['more']} more"
        return
    verdict = "matches" if rule["matches"] else "does not match"
    read = ", ".join(f"{name} = {value!r}" for name, value in rule["read"].items())
    note = f" ({rule['note']})" if "note" in rule else ""
    stopped = "; no later rule is looked at" if rule.get("stop") else ""
    yield f"  {'rule':<10} {rule['description'] or rule['rule']}: {verdict}{note}{stopped}"
    if read:
        yield f"  {'':<10}   it read {read}"
    for action in rule.get("actions", ()):
        yield f"  {'':<10}   {action['action'].replace('_', ' ')}{_changed(action)}"


def _changed(action: Told) -> str:
    if "to" not in action:
        return f": {action['note']}" if "note" in action else ""
    note = f" ({action['note']})" if "note" in action else ""
    before = f" from {action['from']!r}" if "from" in action else ""
    return f":{before} to {action['to']!r}{note}"


def _incident(incident: Told) -> Iterator[str]:
    yield (
        f"incident #{incident['incident_number']} {incident['title']}:"
        f" {incident['status']}, {incident['urgency']} urgency"
    )
    for at, line in sorted(_happenings(incident), key=lambda one: one[0]):
        yield f"  {_moment(at)}  {line}"


def _happenings(incident: Told) -> Iterator[tuple[datetime, str]]:
    """What happened to an incident and what is still to come, each with its moment."""
    for entry in incident["log"]:
        yield entry["at"], f"{entry['what']:<12} {entry['reason']}"
    for timer in incident["timers"]:
        outcome = timer["outcome"] or f"waits until {_moment(timer['due_at'])}"
        yield (
            timer["done_at"] or timer["due_at"],
            f"{'timer':<12} {timer['kind'].replace('_', ' ')}: {outcome}",
        )
    for delivery in incident["deliveries"]:
        for attempt in delivery["attempts"]:
            line = f"{'attempt':<12} {attempt['outcome']}: {attempt['detail']} ({attempt['milliseconds']} ms)"
            yield attempt["at"], line
        yield delivery["done_at"] or delivery["not_before"], _delivery(delivery)


def _delivery(delivery: Told) -> str:
    outcome = f" ({delivery['outcome']})" if delivery["outcome"] else ""
    return (
        f"{delivery['state']:<12} {delivery['person']} by {delivery['contact']}: {delivery['why']}{outcome}"
    )


def _moment(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S}"


def _name(named: Told | None) -> str:
    return named["name"] if named else "(deleted)"
