"""Answer the first question about an alert, from its trace: who was notified, or why nobody was.

All times are in UTC. The answer is made from the page of alerts that the trace shows.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime

from models.domain.enums import NotificationKind, TimerKind
from models.domain.reasons import make_reason, write_clause
from models.reports.alert_trace import JsonDict, name_channel
from models.reports.repeated_alerts import RepeatedIncident, describe

# People and causes that an answer names.
MAX_NAMED = 20
MAX_CAUSES = 5
# Sources whose alerts are not stored again while they say nothing new (pipeline/stages/resent_alerts.py).
_SENT_AGAIN = frozenset({"alertmanager", "expired"})
# A mail that an incident is resolved tells people later that they were notified.
_RECOVERY = NotificationKind.RECOVERY


def write_answer(trace: JsonDict, repeated: Sequence[RepeatedIncident] | None = None) -> list[str]:
    """Return the sentences of the answer. The first says whether somebody was notified.

    A trace without a trace_id is that of an incident alone: the answer is about its notifications. `repeated`
    are the incidents of the alerts that a body repeats; None: it repeats nothing.
    """
    if repeated is not None:
        return [f"NOBODY WAS NOTIFIED: {describe(repeated)}."]
    deliveries = _list_deliveries(trace)
    sent = [each for each in deliveries if each["state"] == "sent"]
    pending = [each["sentence"] for each in deliveries if each["state"] == "pending"]
    if not deliveries:
        pending = list(_list_due_steps(trace))
    if sent:
        received_at = trace["received_at"]
        named = ", ".join(
            f"{each['person']} {_format_time(each['done_at'], received_at)}"
            f" by {name_channel(each['channel'])} (sent)"
            for each in sent[:MAX_NAMED]
        )
        more = f" and {len(sent) - MAX_NAMED} more notifications" if len(sent) > MAX_NAMED else ""
        return [f"NOTIFIED: {named}{more}."]
    if pending:
        return [f"NOT NOTIFIED YET: {'; '.join(pending[:MAX_CAUSES])}."]
    if trace["status"] == "queued":
        return ["NOBODY IS NOTIFIED YET: the alert is not processed yet."]
    first, *rest = list_causes(trace)
    return [f"NOBODY WAS NOTIFIED: {first}.", *(f"{cause[:1].upper()}{cause[1:]}." for cause in rest)]


def list_causes(trace: JsonDict) -> list[str]:
    """Return why nobody was notified, as parts of sentences: at least one. Nobody must have been notified."""
    deliveries = _list_deliveries(trace)
    others = _list_causes_of_alerts(trace, has_deliveries=bool(deliveries))
    causes = list(dict.fromkeys([*(each["sentence"] for each in deliveries), *others]))
    if not causes:
        return [_explain_nothing(trace)]
    more = len(causes) - MAX_CAUSES
    return [*causes[:MAX_CAUSES], f"there are {more} more causes"] if more > 0 else causes


def _explain_nothing(trace: JsonDict) -> str:
    """Return the cause for a trace without alerts and notifications."""
    if not trace["trace_id"]:
        return "the incident has no notification"
    if trace["source"] in _SENT_AGAIN and not trace["alerts"]:
        return write_clause(make_reason("sent_again"))
    return "the trace has no alert"


def _list_deliveries(trace: JsonDict) -> list[JsonDict]:
    """Return the notifications of these incidents, but no mail that an incident is resolved."""
    found = (each for incident in _list_opened(trace) for each in incident["deliveries"])
    return [each for each in found if each["kind"] != _RECOVERY]


def _list_opened(trace: JsonDict) -> list[JsonDict]:
    """Return the incidents that the alerts of the trace opened, or the incident of a trace without alerts."""
    numbers = {alert["incident"] for alert in trace["alerts"] if alert["incident_created"]}
    is_alone = trace["trace_id"] is None
    return [each for each in trace["incidents"] if is_alone or each["incident_number"] in numbers]


def _list_due_steps(trace: JsonDict) -> Iterator[str]:
    """Yield when the next escalation step of each incident is due, if it has one."""
    for timer in (timer for incident in _list_opened(trace) for timer in incident["timers"]):
        if timer["kind"] == TimerKind.ESCALATE and timer["done_at"] is None:
            due = _format_time(timer["due_at"], trace["received_at"])
            yield f"the next escalation step is due at {due}"


def _format_time(at: datetime, received_at: datetime) -> str:
    """Return a time, with its date if it is not on the day on which the alert was accepted."""
    return f"{at:%H:%M:%S}" if at.date() == received_at.date() else f"{at:%Y-%m-%d %H:%M:%S}"


def _list_causes_of_alerts(trace: JsonDict, *, has_deliveries: bool) -> Iterator[str]:
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
