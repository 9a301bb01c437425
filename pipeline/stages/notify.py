"""Stage 6: the first step of the chain: whom to tell of a new incident, and when."""

from datetime import datetime

from models.effects import Decision, OweNotice, stop
from pipeline import identity, moves
from pipeline.alert import Alert
from pipeline.stages.dedupe import actor_of
from pipeline.state import LaneState


def decide(alert: Alert, state: LaneState, now: datetime) -> Decision:
    """Take the steps that are due at once; the later ones are timers."""
    incident = state.incidents[identity.incident_id(alert.event_id)]
    facts = state.facts
    effects = moves.start(incident, facts.service, facts.directory, actor_of(alert), now)
    owed = [effect.notice for effect in effects if isinstance(effect, OweNotice)]
    names = {person.row: person.name for person in facts.directory.people.values()}
    people = ", ".join(dict.fromkeys(names.get(notice.user, "?") for notice in owed))
    return stop(f"to be told now: {people}" if owed else "nobody is to be told yet", *effects)
