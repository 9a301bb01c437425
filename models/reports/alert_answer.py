"""Answer the first question about an alert, from its trace: who was notified, or why nobody was.

All times are in UTC. The answer is made from the page of alerts that the trace shows.
"""

from collections.abc import Iterator
from datetime import datetime

from models.domain.enums import NotificationKind, TimerKind
from models.reports.alert_trace import JsonDict, name_channel

# People and causes that an answer names.
MAX_NAMED = 20
MAX_CAUSES = 5
# A mail that an incident is resolved tells people later that they were notified.
_RECOVERY = NotificationKind.RECOVERY


def write_answer(trace: JsonDict) -> list[str]:
    """Return the sentences of the answer. The first says whether somebody was notified.

    A trace without a trace_id is that of an incident alone: the answer is about its notifications.
    """
    numbers = {alert["incident"] for alert in trace["alerts"] if alert["incident_created"]}
    is_alone = trace["trace_id"] is None
    opened = [each for each in trace["incidents"] if is_alone or each["incident_number"] in numbers]
    deliveries = [each for incident in opened for each in incident["deliveries"] if each["kind"] != _RECOVERY]
    sent = [each for each in deliveries if each["state"] == "sent"]
    pending = [each["sentence"] for each in deliveries if each["state"] == "pending"]
    if not deliveries:
        pending = [_describe_step(due_at, trace) for due_at in _list_due_steps(opened)]
    if sent:
        named = ", ".join(_describe_sent(each, trace) for each in sent[:MAX_NAMED])
        more = f" and {len(sent) - MAX_NAMED} more notifications" if len(sent) > MAX_NAMED else ""
        return [f"NOTIFIED: {named}{more}."]
    if pending:
        return [f"NOT NOTIFIED YET: {'; '.join(pending[:MAX_CAUSES])}."]
    if trace["status"] == "queued":
        return ["NOBODY IS NOTIFIED YET: the alert is not processed yet."]
    others = _list_causes(trace, has_deliveries=bool(deliveries))
    causes = list(dict.fromkeys([*_list_failures(deliveries), *others]))
    nothing = "the incident has no notification" if is_alone else "the trace has no alert"
    shown = causes[:MAX_CAUSES] or [nothing]
    if len(causes) > MAX_CAUSES:
        shown.append(f"There are {len(causes) - MAX_CAUSES} more causes")
    first, *rest = shown
    return [f"NOBODY WAS NOTIFIED: {first}.", *(f"{cause[:1].upper()}{cause[1:]}." for cause in rest)]


def _describe_sent(delivery: JsonDict, trace: JsonDict) -> str:
    by = name_channel(delivery["channel"])
    return f"{delivery['person']} {_format_time(delivery['done_at'], trace)} by {by} (sent)"


def _list_due_steps(incidents: list[JsonDict]) -> Iterator[datetime]:
    """Yield when the next escalation step of each incident is due, if it has one."""
    for incident in incidents:
        for timer in incident["timers"]:
            if timer["kind"] == TimerKind.ESCALATE and timer["done_at"] is None:
                yield timer["due_at"]


def _describe_step(due_at: datetime, trace: JsonDict) -> str:
    return f"the next escalation step is due at {_format_time(due_at, trace)}"


def _format_time(at: datetime, trace: JsonDict) -> str:
    """Return a time, with its date if it is not on the day on which the alert was accepted."""
    return f"{at:%H:%M:%S}" if at.date() == trace["received_at"].date() else f"{at:%Y-%m-%d %H:%M:%S}"


def _list_failures(deliveries: list[JsonDict]) -> Iterator[str]:
    return (each["sentence"] for each in deliveries)


def _list_causes(trace: JsonDict, *, has_deliveries: bool) -> Iterator[str]:
    """Yield why the alerts of the trace notified nobody, each as a part of a sentence."""
    if trace["error"]:
        yield trace["error"].removesuffix(".")
    statuses = {incident["incident_number"]: incident["status"] for incident in trace["incidents"]}
    for alert in trace["alerts"]:
        if alert["error"]:
            yield alert["error"].removesuffix(".")
        elif alert["incident"] and not alert["incident_created"]:
            yield f"the alert {describe_incident_of(alert, statuses)}"
        elif alert["end"] and not (alert["incident_created"] and has_deliveries):
            # If notifications failed, they say why, and not the stage that created them.
            yield alert["end"]


def describe_incident_of(alert: JsonDict, statuses: dict[int, str]) -> str:
    """Return what an alert has to do with its incident. `statuses`: of incidents now, by their number."""
    number = alert["incident"]
    if alert["incident_created"]:
        return f"opens incident #{number}"
    if alert["alert_type"] in ("acknowledged", "resolved"):
        return f"belongs to incident #{number}: {alert['end']}"
    was = "was open then" if statuses.get(number) == "resolved" else "is open"
    return f"joins incident #{number}, which {was}: nobody is notified again"
