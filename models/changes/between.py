"""Changes of the configuration between an alert and the one before it of the same entity.

They can explain why the two alerts were treated differently.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import peewee

from models.changes import listed
from models.changes.record import DELETED
from models.store.prepared import in_list
from models.tables.changes import Change
from models.tables.events import Event, Receipt, list_reasons
from models.tables.rules import AlertRule
from models.tables.services import Integration, Service

# Alerts of an integration that are searched for the one before, and integrations of a page.
MAX_SEARCHED = 500
MAX_INTEGRATIONS = 10
# Changes that are named for an alert, and that are loaded for a page.
MAX_CHANGES = 5
MAX_LOADED = 100
# Objects of a team that can change what an alert does. Of services, integrations and their rules, only those
# of the alert count.
_OF_TEAM = frozenset({
    "alert grouping policy", "escalation policy", "maintenance", "priority", "schedule", "schedule override",
    "SLA", "team", "team member",
})  # fmt: skip
_OF_SERVICE = ("service", "integration")
RULE = "alert rule"
# Objects of the account that can.
_OF_ACCOUNT = frozenset({"global router", "global router rule"})
# Filters the changes that the reader may read.
Readable = Callable[["peewee.ModelSelect[Change]"], "peewee.ModelSelect[Change]"]


class ChangesBetween(NamedTuple):
    """The alert before, and the changes between both, newest first."""

    before: datetime
    changes: list[Change]


class _Earlier(NamedTuple):
    """An alert before, as far as it is compared."""

    at: datetime
    treatment: tuple[object, ...]


def find_changes(
    receipt: Receipt, events: Sequence[Event], readable: Readable | None = None
) -> dict[int, ChangesBetween]:
    """Return what changed before these alerts of a receipt, by row number.

    Left out are alerts that were treated like the one before, and those before which nothing changed that
    the reader may read. The number of statements does not depend on the alerts.
    """
    processed = [each for each in events if each.integration_id is not None and each.reasons]
    earlier = _find_earlier(receipt, processed)
    compared = {
        each.id: earlier[each.integration_id, each.entity_id]
        for each in processed
        if (each.integration_id, each.entity_id) in earlier
        and earlier[each.integration_id, each.entity_id].treatment != _describe_treatment(each)
    }
    if not compared:
        return {}
    differing = [each for each in processed if each.id in compared]
    since = min(each.at for each in compared.values())
    teams = _load_teams({each.service_id for each in differing})
    changes = _load_changes(receipt, since, _can_matter_to(differing, teams), readable)
    rules = _find_rules({each.integration_id for each in differing}, changes)
    found = {}
    for event in differing:
        before, service = compared[event.id].at, teams.get(event.service_id)
        named = [
            change for change in changes if change.at >= before and _can_matter(change, event, service, rules)
        ]
        if named:
            found[event.id] = ChangesBetween(before, named[:MAX_CHANGES])
    return found


def _find_earlier(receipt: Receipt, events: Sequence[Event]) -> dict[tuple[int, str], _Earlier]:
    """Return the last alert of each entity before this receipt, in one statement."""
    integrations = sorted({each.integration_id for each in events})[:MAX_INTEGRATIONS]
    if not integrations:
        return {}
    first = min(each.id for each in events)
    recent: peewee.SelectBase | None = None
    for integration in integrations:
        newest = (
            Event.select(Event.id)
            .where(Event.integration == integration, Event.id < first, Event.receipt != receipt.id)
            .order_by(Event.id.desc())
            .limit(MAX_SEARCHED)
        )
        # A limit inside a union needs a query around it.
        wrapped = peewee.Select([newest], [newest.c.id])
        recent = wrapped if recent is None else recent.union_all(wrapped)
    query = (
        Event.select(
            Event.integration, Event.entity_id, Event.suppressed, Event.incident, Event.reasons,
            Event.rules, Receipt.received_at,
        )
        .join(Receipt)
        .where(Event.id.in_(recent), in_list(Event.entity_id, sorted({each.entity_id for each in events})))
        .order_by(Event.id)
    )  # fmt: skip
    found = {}
    for integration, entity, suppressed, incident, reasons, rules, at in query.tuples():
        row = Event(suppressed=suppressed, incident=incident, reasons=reasons, rules=rules)
        found[integration, entity] = _Earlier(at, _describe_treatment(row))
    return found


def _describe_treatment(event: Event) -> tuple[object, ...]:
    """Return what tells whether two alerts were treated differently, also if they opened two incidents."""
    reasons = list_reasons(event)
    stage, reason = reasons[-1] if reasons else ("", None)
    rules = tuple((each.get("rule"), each.get("matches")) for each in event.rules)
    return event.suppressed, event.incident_id, stage, reason.code if reason else None, rules


def _load_changes(
    receipt: Receipt, since: datetime, where: peewee.Expression, readable: Readable | None
) -> list[Change]:
    query = listed.select_changes(receipt.account_id, listed.Filters(start=since))
    query = query.where(Change.at <= receipt.received_at, where)
    return list((query if readable is None else readable(query)).limit(MAX_LOADED))


def _can_matter_to(events: Sequence[Event], teams: Mapping[int, tuple[int, str]]) -> peewee.Expression:
    """Return the condition for changes that can matter to one of these alerts."""
    objects = {unique_id for _, unique_id in teams.values()} | {_get_integration(each) for each in events}
    of_team = in_list(Change.team, {team for team, _ in teams.values()})
    return (
        (Change.kind.in_(sorted(_OF_TEAM | {RULE})) & of_team)
        | (Change.kind.in_(_OF_SERVICE) & in_list(Change.object_id, objects))
        | Change.kind.in_(sorted(_OF_ACCOUNT))
    )


def _load_teams(services: Collection[int]) -> dict[int, tuple[int, str]]:
    """Return the team and the unique_id of each service."""
    query = Service.select(Service.id, Service.team, Service.unique_id).where(in_list(Service.id, services))
    return {service: (team, unique_id) for service, team, unique_id in query.tuples()}


def _find_rules(integrations: Collection[int], changes: Sequence[Change]) -> set[str]:
    """Return the unique_ids of the changed alert rules of these integrations, and of deleted rules."""
    changed = {each.object_id for each in changes if each.kind == RULE}
    own = AlertRule.select(AlertRule.unique_id).where(in_list(AlertRule.integration, integrations))
    deleted = {each.object_id for each in changes if each.kind == RULE and each.action == DELETED}
    return (changed & {unique_id for (unique_id,) in own.tuples()} if changed else set()) | deleted


def _can_matter(change: Change, event: Event, service: tuple[int, str] | None, rules: set[str]) -> bool:
    if change.kind in _OF_ACCOUNT:
        return True
    if service is None or change.team_id != service[0]:
        return False
    if change.kind in _OF_TEAM:
        return True
    if change.kind == RULE:
        return change.object_id in rules
    return change.object_id in (service[1], _get_integration(event))


def _get_integration(event: Event) -> str:
    """Return the unique_id of the integration; "": it was deleted."""
    integration: Integration | None = event.integration
    return integration.unique_id if integration else ""
