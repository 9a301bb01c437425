"""Stage 6: the first step of the chain: whom to tell of a new incident, and when."""

from datetime import datetime

from models.effects import Decision, OweNotice, stop
from pipeline import identity, moves
from pipeline.alert import Alert, actor_of
from pipeline.state import LaneState


def decide(alert: Alert, state: LaneState, now: datetime) -> Decision:
    """Take the steps that are due at once; the later ones are timers."""
    incident = state.incidents[identity.incident_id(alert.event_id)]
    facts = state.facts
    chosen = facts.directory.people.get(alert.plan.assigned_to or "")
    actor = actor_of(alert)
    effects = moves.start_assigned(incident, chosen, facts.service, facts.directory, actor, now)
    owed = [effect.notice for effect in effects if isinstance(effect, OweNotice)]
    people = facts.directory.people.values()
    told = (one for person in people for one in (person, *(each.to for each in person.forwarding)))
    names = {person.row: person.name for person in told}
    listed = ", ".join(dict.fromkeys(names[notice.user] for notice in owed))
    when = f"in {alert.plan.delay_s} s" if alert.plan.delay_s else "now"
    return stop(f"to be told {when}: {listed}" if owed else "nobody is to be told yet", *effects)
