"""Answer the first question about an alert, from its trace: who was notified, or why nobody was.

All times are in UTC. The answer is made from the page of alerts that the trace shows.
"""

from collections.abc import Iterator

from models.reports.alert_trace import JsonDict, name_channel

# People and causes that an answer names.
MAX_NAMED = 20
MAX_CAUSES = 5


def write_answer(trace: JsonDict) -> list[str]:
    """Return the sentences of the answer. The first says whether somebody was notified."""
    opened = {alert["incident"] for alert in trace["alerts"] if alert["incident_created"]}
    deliveries = [
        each
        for incident in trace["incidents"]
        if incident["incident_number"] in opened
        for each in incident["deliveries"]
    ]
    sent = [each for each in deliveries if each["state"] == "sent"]
    pending = [each["sentence"] for each in deliveries if each["state"] == "pending"]
    if sent:
        named = ", ".join(_describe_sent(each) for each in sent[:MAX_NAMED])
        more = f" and {len(sent) - MAX_NAMED} more notifications" if len(sent) > MAX_NAMED else ""
        return [f"NOTIFIED: {named}{more}."]
    if pending:
        return [f"NOT NOTIFIED YET: {'; '.join(pending[:MAX_CAUSES])}."]
    if trace["status"] == "queued":
        return ["NOBODY IS NOTIFIED YET: the alert is not processed yet."]
    causes = list(dict.fromkeys([*_list_failures(deliveries), *_list_causes(trace)]))
    shown = causes[:MAX_CAUSES] or ["the trace has no alert"]
    if len(causes) > MAX_CAUSES:
        shown.append(f"There are {len(causes) - MAX_CAUSES} more causes")
    first, *others = shown
    return [f"NOBODY WAS NOTIFIED: {first}.", *(f"{cause[:1].upper()}{cause[1:]}." for cause in others)]


def _describe_sent(delivery: JsonDict) -> str:
    by = name_channel(delivery["channel"])
    return f"{delivery['person']} {delivery['done_at']:%H:%M:%S} by {by} (sent)"


def _list_failures(deliveries: list[JsonDict]) -> Iterator[str]:
    return (each["sentence"] for each in deliveries)


def _list_causes(trace: JsonDict) -> Iterator[str]:
    """Yield why the alerts of the trace notified nobody, each as a part of a sentence."""
    if trace["error"]:
        yield trace["error"].removesuffix(".")
    statuses = {incident["incident_number"]: incident["status"] for incident in trace["incidents"]}
    for alert in trace["alerts"]:
        if alert["error"]:
            yield alert["error"].removesuffix(".")
        elif alert["incident"] and not alert["incident_created"]:
            yield f"the alert {describe_incident_of(alert, statuses)}"
        elif alert["end"]:
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
