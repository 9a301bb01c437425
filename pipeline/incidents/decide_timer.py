"""Decide what a due timer does, and return it as effects. workers/timers/fire.py writes them."""

from models.domain.effects import Author
from models.domain.enums import AuthorKind
from models.domain.facts import IncidentContext, TimerDecision
from models.domain.reasons import make_reason
from models.domain.values import replace
from pipeline.incidents.escalation_run import save_with_timers
from pipeline.incidents.status import change_status
from pipeline.incidents.timer_table import TIMERS


def build_timer_author(kind: str) -> Author:
    """Return the author of what a timer of this kind changes."""
    return Author(AuthorKind.TIMER, kind.replace("_", " "))


def decide_timer(context: IncidentContext, kind: str, key: str) -> TimerDecision:
    """Return what a due timer does: its outcome and all its effects.

    Raises KeyError for a kind that this program does not know, such as one of a newer version.
    """
    if context.incident.parent is not None:
        return TimerDecision(make_reason("is_merged"), save_with_timers(context))
    decision = TIMERS[kind].decide(context, key)
    effects = decision.effects
    if decision.save is not None:
        effects += save_with_timers(context.with_incident(decision.save), decision.outcome)
    if decision.status is not None:
        effects += change_status(context, decision.status, decision.reason or decision.outcome)
    return replace(decision, effects=effects)
