"""Incidents handed on, put to sleep, and merged into each other: our own operations, contract section 4.3.

What each means is decided by pipeline.moves, under the locks of all incidents that it moves.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from marshmallow import validate

from models.apply import apply
from models.base import store
from models.directories import promises, with_turns
from models.effects import Effect, IncidentState, Outcome
from models.facts import Surroundings
from models.incidents import Incident
from models.loading import Families, lock_families, lock_incident, slas_behind
from pipeline import moves
from web import access, wire
from web.auth import now, viewer
from web.errors import NotFound, bad
from web.incident_parts import acting
from web.incident_shapes import Reason, filled
from web.incidents import policies_of, resolved, with_person
from web.shapes import MaybeMoment, MaybeNumber, Reference, Said, Several, Shape, Username
from workers import bell

LONGEST_SNOOZE = timedelta(days=30)
# Of one incident, in all: they are moved with it, in one transaction.
MOST_CHILDREN = 1_000


class ReassignShape(Shape):
    """A person or a policy, one of the two; and why."""

    assigned_to = Username()
    escalation_policy = Reference()
    reason = Reason()


class SnoozeShape(Shape):
    """Until when, or for how long, one of the two."""

    until = MaybeMoment()
    minutes = MaybeNumber(least=1, most=LONGEST_SNOOZE // timedelta(minutes=1))


class OthersShape(Shape):
    """Other incidents, each by number or unique_id."""

    incidents = Several(Said(limit=64), required=True, validate=validate.Length(min=1))


REASSIGN = ReassignShape()
SNOOZE = SnoozeShape()
NAMED = OthersShape()


def reassign(incident: str) -> Incident:
    """Hand an incident to a person, or to another escalation policy."""
    row = access.access_incident(viewer(), incident)
    values = wire.read(REASSIGN)
    _require_one(values, "assigned_to", "escalation_policy")
    wanted = resolved(values, row.team)
    reason = wanted.get("reason", "")
    with store().writing():
        found = _locked(row, policies_of(wanted))
        directory = with_turns(found.directory, wanted.get("escalation_policy"))
        around = (found.service, directory, acting(), now(), reason)
        if wanted.get("assigned_to"):
            effects = moves.assign(found.incident, with_person(wanted)["assigned_to"], *around)
        else:
            effects = moves.change_policy(found.incident, wanted["escalation_policy"], *around)
        channels = _write(row, effects)
    bell.ring_deliveries(channels)
    return _again(row)


def snooze(incident: str) -> Incident:
    """Put an acknowledged incident to sleep; it is triggered again when that is over."""
    row = access.access_incident(viewer(), incident)
    until = _until(wire.read(SNOOZE))
    with store().writing():
        found = _locked(row)
        obstacle = moves.against_snoozing(found.incident)
        if obstacle:
            bad("incident", obstacle)
        _write(row, moves.snooze(found.incident, until, found.service, found.directory, acting(), now()))
    return _again(row)


def wake(incident: str) -> None:
    """Wake an incident before its time; it stays acknowledged."""
    row = access.access_incident(viewer(), incident)
    with store().writing():
        found = _locked(row)
        _write(row, moves.wake(found.incident, found.service, found.directory, acting(), now()))


def merge(incident: str) -> Incident:
    """Merge other incidents into one, which is their parent: they fall silent and are resolved with it."""
    row = access.access_incident(viewer(), incident)
    named = _named(wire.read(NAMED)["incidents"])
    with store().writing():
        found, parent, children = _locked_families(row, named)
        obstacle = moves.against_merging(parent, children)
        if obstacle:
            bad("incidents", obstacle)
        grandchildren = [one for child in children for one in found.children_of(child)]
        if len(found.children_of(parent)) + len(children) + len(grandchildren) > MOST_CHILDREN:
            bad("incidents", f"No more than {MOST_CHILDREN:,} may be merged into one.")
        _write(row, moves.merge(parent, children, grandchildren, acting(), now()))
    return _again(row)


def unmerge(incident: str) -> Incident:
    """Let incidents that were merged into this one stand alone again; they stay acknowledged."""
    row = access.access_incident(viewer(), incident)
    named = _named(wire.read(NAMED)["incidents"])
    with store().writing():
        found, parent, children = _locked_families(row, named)
        others = ", ".join(f"#{child.number}" for child in children if child.parent != parent.row)
        if others:
            bad("incidents", f"Not merged into this one: {others}.")
        actor, at, around = acting(), now(), promises(slas_behind(children))
        alone = [
            moves.unmerge(child, parent, found.services.get(child.service or 0), around, actor, at)
            for child in children
        ]
        _write(row, (effect for effects in alone for effect in effects))
    return _again(row)


def _require_one(values: dict[str, Any], one: str, other: str) -> None:
    if bool(values.get(one)) == bool(values.get(other)):
        bad(one, f"Give either {one} or {other}.")


def _until(values: dict[str, Any]) -> datetime:
    _require_one(values, "until", "minutes")
    until: datetime = values.get("until") or now() + timedelta(minutes=values["minutes"])
    if not now() < until <= now() + LONGEST_SNOOZE:
        bad("until", f"Must be later than now, by at most {LONGEST_SNOOZE.days} days.")
    return until


def _named(references: list[str]) -> list[Incident]:
    """The incidents that a body names; BadRequest for what is not there, or not for the viewer to move."""
    found = access.incidents_named(viewer(), references)
    missing = [reference for reference in references if reference not in found]
    if missing:
        bad("incidents", f"No such incidents: {', '.join(missing)}.")
    if len({row.id for row in found.values()}) < len(references):
        bad("incidents", "Name each of them once.")
    return [found[reference] for reference in references]


def _locked(row: Incident, policies: Iterable[int] = ()) -> Surroundings:
    found = lock_incident(row.id, policies)
    if found is None:
        raise NotFound
    return found


def _locked_families(
    row: Incident, named: list[Incident]
) -> tuple[Families, IncidentState, list[IncidentState]]:
    """The families under their locks; of them the incident of the path, and those that were named."""
    found = lock_families([row.id, *(one.id for one in named)])
    if any(one.id not in found.incidents for one in (row, *named)):
        raise NotFound
    return found, found.incidents[row.id], [found.incidents[one.id] for one in named]


def _write(row: Incident, effects: Iterable[Effect]) -> frozenset[int]:
    """Write what was decided of an incident and its family; the channels that may have something to send."""
    return apply(Outcome(effects=list(effects)), {row.unique_id: row.id}).channels


def _again(row: Incident) -> Incident:
    return filled([Incident.get_by_id(row.id)])[0]
