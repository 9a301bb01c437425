"""Stage 6: take the first step of the escalation run, and say who is notified of a new incident and when."""

from datetime import datetime

from models.domain import identity
from models.domain.effects import CreateNotification, Decision, stop
from models.domain.facts import IncidentContext
from models.domain.reasons import make_reason
from pipeline import incidents
from pipeline.alert import Alert, build_alert_author
from pipeline.lane_state import LaneState


def decide(alert: Alert, state: LaneState, now: datetime) -> Decision:
    """Take the steps that are due now; the later ones are timers."""
    incident = state.incidents[identity.make_incident_id(alert.event_id)]
    facts = state.facts
    assignee = facts.config.people.get(alert.options.assigned_to or "")
    context = IncidentContext(incident, facts.service, facts.config, build_alert_author(alert), now)
    effects = incidents.start_for_assignee(context, assignee)
    created = [effect.notification for effect in effects if isinstance(effect, CreateNotification)]
    people = facts.config.people.values()
    receivers = (one for person in people for one in (person, *(each.to for each in person.forwarding)))
    names = {person.row: person.name for person in receivers}
    notified = tuple(dict.fromkeys(names[notification.user] for notification in created))
    if not notified:
        return stop(make_reason("notifies_nobody_yet"), *effects)
    if alert.options.delay_s:
        return stop(
            make_reason("notifies_later", people=notified, delay=int(alert.options.delay_s)), *effects
        )
    return stop(make_reason("notifies", people=notified), *effects)
