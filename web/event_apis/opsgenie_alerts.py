"""Opsgenie's Alert API: operations that read and change the alerts of an integration.

An alert is an entity with the incident that holds it, or held it last. A key sees and changes only the alerts
of its own integration, and only if the integration allows it (`has_alert_access`): a key is in the settings
of tools, where more people can read it than an incident.
"""

from collections.abc import Callable
from datetime import datetime, timedelta

import msgspec
import peewee
from flask import Response, request

from models.domain.effects import Author, Effect, RecordLog, SaveIncident
from models.domain.enums import OPEN_STATUSES, AuthorKind, IncidentStatus, Urgency
from models.domain.facts import IncidentContext
from models.domain.identity import is_uuid
from models.domain.reasons import make_reason
from models.store.ids import make_uuid
from models.tables.accounts import Account
from models.tables.events import Entity
from models.tables.incidents import Incident, IncidentTag
from models.tables.services import Integration, Service, SourceSetup
from models.tables.teams import Priority, Tag, Team
from models.write.change_incident import change_incident
from pipeline import incidents
from pipeline.sources.reading.body import parse_time
from pipeline.sources.reading.cleaning import clean_entity_id
from web.event_apis.keys import read_authorization
from web.event_apis.opsgenie import IDENTIFIER_TYPES, UnknownKey, build_acceptance, describe_error
from web.event_apis.opsgenie import delete as send_deletion
from web.event_apis.responses import build_answer, get_seconds, with_errors
from web.http.auth import now
from web.http.errors import Forbidden, NotFound, reject
from web.http.limits.places import hold_place
from workers import queue

MAX_ALERTS, USUAL_ALERTS = 100, 20
# More alerts of one integration are not listed.
MAX_OFFSET = 20_000
MAX_TAGS = 20
MAX_SNOOZE = timedelta(days=30)
STATUSES = {"open": True, "closed": False}
PRIORITIES = ("P1", "P2", "P3", "P4", "P5")
NO_ACCESS = (
    "This key may only send alerts. To let it read and change them, set has_alert_access of its integration."
)
# The incident of an entity: the one that holds it, or held it last.
_INCIDENT = peewee.fn.COALESCE(Entity.incident, Entity.last_incident)


class _Body(msgspec.Struct):
    """What the operations of this file need of a body."""

    tags: list[str] | None = None
    priority: str | None = None
    endTime: str | None = None  # noqa: N815 - Opsgenie's name


_DECODER = msgspec.json.Decoder(_Body)


@with_errors(describe_error)
def list_alerts() -> Response:
    """List the alerts of the key's integration, the newest entity first."""
    integration = _authenticate()
    limit = _read_number("limit", USUAL_ALERTS, 1, MAX_ALERTS)
    offset = _read_number("offset", 0, 0, MAX_OFFSET)
    is_open = _read_status()
    # The store reads and sorts all entities of the integration: 100,000 take 60 ms on SQLite.
    with hold_place(integration.service.team.account.account_identifier):
        rows = _list_rows(integration, is_open, limit, offset)
        query = _select(integration).where(Entity.id.in_(rows)).order_by(Entity.id.desc())
        return _answer([_show(entity, integration) for entity in query])


def _list_rows(integration: Integration, is_open: bool | None, limit: int, offset: int) -> list[int]:
    """Return the row numbers of a page of entities, without their incidents: these would be sorted too."""
    has_incident = Entity.incident.is_null(False) | Entity.last_incident.is_null(False)
    query = Entity.select(Entity.id).where(Entity.integration == integration, has_incident)
    if is_open is not None:
        query = query.where(Entity.incident.is_null(not is_open))
    page = query.order_by(Entity.id.desc()).limit(limit).offset(offset)
    return [row for (row,) in page.tuples()]


@with_errors(describe_error)
def get_alert(identifier: str, action: str = "") -> Response:
    """Get an alert. Its alias may have a slash: then the end of the path looks like an action."""
    integration = _authenticate()
    entity = _find(integration, _join(identifier, action))
    shown = _show(entity, integration)
    tags = Tag.select(Tag.name).join(IncidentTag).where(IncidentTag.incident == entity.shown).tuples()
    return _answer({**shown, "description": entity.shown.summary, "tags": [name for (name,) in tags]})


@with_errors(describe_error)
def delete_alert(identifier: str, action: str = "") -> Response:
    """Resolve an alert. Nothing is deleted: the incident stays. `action` is as for `get_alert`."""
    _authenticate()
    _check_identifier_type()
    return send_deletion(_join(identifier, action))


@with_errors(describe_error)
def add_tags(identifier: str) -> Response:
    """Add tags of the team to the incident of an alert. Names that the team has no tag for are refused."""
    integration = _authenticate()
    names = dict.fromkeys(name.strip() for name in _read_body().tags or ())
    if not names or len(names) > MAX_TAGS:
        reject("tags", f"must have 1 to {MAX_TAGS} names")
    known = _find_named(Tag, integration, tuple(names), "tags")
    row = _find_open(integration, identifier)
    author = _build_author(integration)

    def decide(context: IncidentContext) -> tuple[Effect, ...]:
        return tuple(_add_tag(row, tag, context, author) for tag in known if not _has_tag(row, tag))

    return _change(row, integration, decide)


@with_errors(describe_error)
def set_priority(identifier: str) -> Response:
    """Set the priority of the incident of an alert to the team's priority of this name, such as P2."""
    integration = _authenticate()
    name = (_read_body().priority or "").upper()
    if name not in PRIORITIES:
        reject("priority", f"must be one of {', '.join(PRIORITIES)}")
    (priority,) = _find_named(Priority, integration, (name,), "priority")
    row = _find_open(integration, identifier)

    def decide(context: IncidentContext) -> tuple[Effect, ...]:
        state, author = context.incident, context.author
        if state.team_priority == priority.id:
            return ()
        why = make_reason("edited", fields=("team_priority",), by=author.name)
        changed = SaveIncident(state.with_changes(team_priority=priority.id))
        return (changed, RecordLog(state.unique_id, context.now, "edited", why, author))

    return _change(row, integration, decide)


@with_errors(describe_error)
def snooze(identifier: str) -> Response:
    """Snooze the incident of an alert until `endTime`. Only an acknowledged one can be snoozed."""
    integration = _authenticate()
    until = parse_time(_read_body().endTime)
    if until is None or not now() < until <= now() + MAX_SNOOZE:
        reject("endTime", f"must be a time of the next {MAX_SNOOZE.days} days")
    row = _find_open(integration, identifier)

    def decide(context: IncidentContext) -> tuple[Effect, ...]:
        obstacle = incidents.check_snooze(context.incident)
        if obstacle:
            reject("alert", obstacle)
        return incidents.snooze(context, until)

    return _change(row, integration, decide)


def _join(identifier: str, action: str) -> str:
    return f"{identifier}/{action}" if action else identifier


def _authenticate() -> Integration:
    """Return the integration of the key. Raise UnknownKey, or Forbidden if it allows no access."""
    key = read_authorization("GenieKey")
    integration: Integration | None = (
        Integration.select(Integration, Service, Team, Account)
        .join(Service)
        .join(Team)
        .join(Account)
        .where(Integration.integration_key == key, Integration.is_enabled)
        .first()
        if is_uuid(key)
        else None
    )
    if integration is None:
        raise UnknownKey
    allowed = SourceSetup.select().where(SourceSetup.integration == integration, SourceSetup.has_alert_access)
    if not allowed.exists():
        raise Forbidden(detail=NO_ACCESS)
    return integration


def _select(integration: Integration) -> "peewee.ModelSelect[Entity]":
    """Select the entities of an integration that have an incident, each with it as `shown`."""
    return (
        Entity.select(Entity, Incident)
        .join(Incident, on=(Incident.id == _INCIDENT), attr="shown")
        .where(Entity.integration == integration)
    )


def _find(integration: Integration, identifier: str) -> Entity:
    _check_identifier_type()
    alias = clean_entity_id(identifier)
    entity: Entity | None = _select(integration).where(Entity.entity_id == alias).first()
    if entity is None:
        raise NotFound(detail="Alert does not exist.")
    return entity


def _find_open(integration: Integration, identifier: str) -> Incident:
    """Return the open incident of an alert."""
    entity = _find(integration, identifier)
    if entity.incident_id is None:
        reject("alert", "The alert is closed.")
    incident: Incident = entity.shown
    return incident


def _find_named(
    model: type[Tag] | type[Priority], integration: Integration, names: tuple[str, ...], field: str
) -> list[Tag | Priority]:
    """Return the rows of the integration's team with these names. Raise BadRequest if one is missing."""
    folded = {name.lower() for name in names}
    rows = model.select().where(
        model.team == integration.service.team_id, peewee.fn.LOWER(model.name).in_(sorted(folded))
    )
    found = {row.name.lower(): row for row in rows}
    missing = [name for name in names if name.lower() not in found]
    if missing:
        reject(field, f"the team has none with the name {', '.join(missing)}")
    return list(found.values())


def _change(
    row: Incident, integration: Integration, decide: Callable[[IncidentContext], tuple[Effect, ...]]
) -> Response:
    before = change_incident(row.id, _build_author(integration), decide, now(), queue.enqueue_deliveries)
    if before is None:
        raise NotFound(detail="Alert does not exist.")
    return build_acceptance("")


def _build_author(integration: Integration) -> Author:
    return Author(AuthorKind.ALERT, f"the sender of {integration.name or 'an integration'}")


def _has_tag(row: Incident, tag: Tag | Priority) -> bool:
    found: bool = (
        IncidentTag.select().where(IncidentTag.incident == row, IncidentTag.team_tag == tag.id).exists()
    )
    return found


def _add_tag(row: Incident, tag: Tag | Priority, context: IncidentContext, author: Author) -> Effect:
    """Insert a tag, in the transaction that has locked the incident. Return the entry of its log."""
    IncidentTag.insert(
        unique_id=make_uuid(), incident=row.id, team_tag=tag.id, creation_date=context.now
    ).execute()
    why = make_reason("tag_added", tag=tag.name, by=author.name)
    return RecordLog(row.unique_id, context.now, "tagged", why, author)


def _check_identifier_type() -> None:
    if request.args.get("identifierType", "id") not in IDENTIFIER_TYPES:
        reject("identifierType", f"must be one of {', '.join(IDENTIFIER_TYPES)}")


def _read_number(name: str, usual: int, least: int, most: int) -> int:
    text = request.args.get(name, "")
    if not text:
        return usual
    if not (text.isascii() and text.isdecimal() and len(text) < 9 and least <= int(text) <= most):
        reject(name, f"must be a number from {least} to {most:,}")
    return int(text)


def _read_status() -> bool | None:
    """Return whether only open or only closed alerts are wanted; None: both."""
    query = request.args.get("query", "").strip().lower()
    if not query:
        return None
    name, _, status = query.replace("=", ":").partition(":")
    if name.strip() != "status" or status.strip() not in STATUSES:
        reject("query", "must be status:open or status:closed")
    return STATUSES[status.strip()]


def _read_body() -> _Body:
    try:
        return _DECODER.decode(request.get_data(cache=False) or b"{}")
    except (msgspec.MsgspecError, ValueError, RecursionError):
        reject("body", "is no object with fields of the right types")


def _show(entity: Entity, integration: Integration) -> dict[str, object]:
    incident: Incident = entity.shown
    is_open = entity.incident_id is not None and incident.status in OPEN_STATUSES
    high = incident.urgency == Urgency.HIGH
    return {
        "id": entity.entity_id,
        "tinyId": str(incident.incident_number),
        "alias": entity.entity_id,
        "message": incident.title,
        "status": "open" if is_open else "closed",
        "acknowledged": incident.status == IncidentStatus.ACKNOWLEDGED,
        "isSeen": incident.status != IncidentStatus.TRIGGERED,
        "snoozed": incident.snoozed_till is not None,
        "snoozedUntil": _show_time(incident.snoozed_till),
        "createdAt": _show_time(incident.creation_date),
        "updatedAt": _show_time(
            incident.resolved_date or incident.acknowledged_date or incident.creation_date
        ),
        "priority": "P1" if high else "P3",
        "source": integration.name,
        "integration": {"id": integration.unique_id, "name": integration.name, "type": "API"},
    }


def _show_time(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()


def _answer(data: object) -> Response:
    return build_answer({"data": data, "took": get_seconds(request.environ), "requestId": ""}, 200)
