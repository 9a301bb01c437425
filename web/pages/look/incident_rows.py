"""What the list of incidents shows beside the rows themselves: level, alerts, and who is next.

All of it takes a constant number of statements, for any number of rows.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from models.domain.effects import IncidentState
from models.domain.enums import AlertType, IncidentStatus, TimerKind, Urgency
from models.domain.facts import OnCallConfig
from models.load import timers
from models.load.incident_states import load_states
from models.load.lane import ConfigKeys, load_incident_config
from models.load.simulation import load_many_open, load_open_incident
from models.reports.pages import incident_list
from models.tables.incidents import Incident
from pipeline.simulation.next_messages import NextMessages, find_next_messages
from web.http.auth import now

# Incidents of one page for which the next person is computed: of each about a millisecond. The first ones of
# the list. The configuration of each team takes some statements.
MAX_COMPUTED = 20
MAX_TEAMS = 4

LEVELS = {each: each.name.lower() for each in AlertType if each <= AlertType.CRITICAL}
# The level of an incident that no alert opened.
BY_URGENCY = {Urgency.HIGH: "error", Urgency.LOW: "info"}


@dataclass(frozen=True, slots=True)
class Next:
    """What happens next if nobody does anything.

    `kind` is "people" (they get a message), "again" (it is triggered again), "resolves" (it is resolved), or
    "nobody". `at` is None if nothing happens, or if it is not known here.
    """

    kind: str
    at: datetime | None = None
    people: tuple[str, ...] = ()


NOBODY = Next("nobody")


@dataclass(frozen=True, slots=True)
class AlertFigures:
    """The number of an incident's alerts, and the level of the first one; None: no alert opened it."""

    count: int
    level: str | None


def load_alert_figures(rows: Collection[int]) -> dict[int, AlertFigures]:
    """Return the figures by row number. Only the index is read for the counts."""
    levels = incident_list.load_levels(rows)
    return {
        row: AlertFigures(count, LEVELS.get(AlertType(levels[row])) if row in levels else None)
        for row, count in incident_list.count_alerts(rows).items()
    }


def get_level(figures: AlertFigures | None, status: int, urgency: int) -> str:
    """Return the class of the style with the colour of an incident."""
    if status == IncidentStatus.RESOLVED:
        return "resolved"
    return (figures and figures.level) or BY_URGENCY[Urgency(urgency)]


def find_following(row: Incident, reader: int) -> NextMessages:
    """Return who gets the next messages about an incident if nobody reacts. `reader` is a person's row."""
    (state,) = load_states([row.id])
    if not state.is_open or state.parent is not None:
        return NextMessages()
    config = load_incident_config(ConfigKeys.from_incidents([state]), now())
    return find_next_messages(load_open_incident(state, config, now()), now(), reader)


def find_next(rows: Sequence[int], reader: int) -> dict[int, Next]:
    """Return what happens next with these open incidents, by row number. Others are absent."""
    states = {state.row or 0: state for state in load_states(rows) if state.is_open and state.parent is None}
    shown = [states[row] for row in rows if row in states]
    triggered = [state for state in shown if state.status == IncidentStatus.TRIGGERED]
    found = _compute(triggered[:MAX_COMPUTED], reader)
    others = [state for state in shown if state.row not in found]
    return found | _read_timers(others)


def _compute(states: Sequence[IncidentState], reader: int) -> dict[int, Next]:
    """Return who gets the next message about these incidents, by the rules of a simulation."""
    by_team = defaultdict(list)
    for state in states:
        by_team[state.team].append(state)
    chosen = dict(list(by_team.items())[:MAX_TEAMS])
    configs: dict[int, OnCallConfig] = {
        team: load_incident_config(ConfigKeys.from_incidents(group), now()) for team, group in chosen.items()
    }
    facts = load_many_open([each for group in chosen.values() for each in group], configs, now())
    found: dict[int, Next] = {}
    for each in facts:
        following = find_next_messages(each, now(), reader)
        if following.messages:
            last = following.messages[-1]
            found[each.incident.row or 0] = Next("people", last.at, last.people)
        elif following.resolved_at:
            found[each.incident.row or 0] = Next("resolves", following.resolved_at)
        else:
            found[each.incident.row or 0] = NOBODY
    return found


_KINDS = {
    TimerKind.ESCALATE: "people",
    TimerKind.ACKNOWLEDGEMENT_TIMEOUT: "again",
    TimerKind.SNOOZE: "again",
    TimerKind.AUTO_RESOLVE: "resolves",
}


def _read_timers(states: Iterable[IncidentState]) -> dict[int, Next]:
    """Return what the first timer of these incidents does, without the people whom it will notify."""
    unique_ids = {state.row or 0: state.unique_id for state in states}
    rows = {unique_id: row for row, unique_id in unique_ids.items()}
    pending = [timer for _, timer in timers.load_pending_timers(unique_ids) if timer.kind in _KINDS]
    found: dict[int, Next] = dict.fromkeys(unique_ids, NOBODY)
    for timer in sorted(pending, key=lambda timer: timer.due_at, reverse=True):
        found[rows[timer.incident]] = Next(_KINDS[TimerKind(timer.kind)], timer.due_at)
    return found
