"""What was set aside with its error (under /api/tocsin/aside/): seen, taken up again, or dropped.

Members do so for what is of their teams; what belongs to no service, as what a router could not read, is for
owners and admins.
"""

import re
from collections.abc import Sequence
from typing import Any

import structlog
from flask import current_app
from marshmallow import fields

from models import aside
from models.accounts import display_name
from models.aside import Changed, Key, Scope, SetAside
from models.shortid import ALPHABET
from pipeline.topology import covering, segments
from web import access, paging
from web.auth import viewer
from web.errors import NotFound, bad
from web.permissions import ADMIN
from web.shapes import Moment, Number, Shape, Text
from workers import bell

log = structlog.get_logger()

_SHORT = re.compile(f"[{ALPHABET}]{{22}}")


class OwnerShape(Shape):
    unique_id = Text(dump_only=True)
    name = Text(dump_only=True)


class RoadStepShape(Shape):
    stage = Text(dump_only=True)
    reason = Text(dump_only=True)


class SetAsideShape(Shape):
    """`id` is the trace_id of a whole body, the unique_id of a single alert; `position` and `message` are an
    alert's only. What was deleted since is null. `body_bytes` is how long the body is that it came in."""

    id = Text(dump_only=True)
    trace_id = Text(dump_only=True)
    position = Number(allow_none=True, dump_only=True)
    accepted_at = Moment(dump_only=True)
    error = Text(dump_only=True)
    source = Text(dump_only=True)
    service = fields.Nested(OwnerShape, allow_none=True, dump_only=True)
    integration = fields.Nested(OwnerShape, allow_none=True, dump_only=True)
    router = fields.Nested(OwnerShape, allow_none=True, dump_only=True)
    message = Text(allow_none=True, dump_only=True)
    road = fields.List(fields.Nested(RoadStepShape), dump_only=True)
    body_bytes = Number(attribute="size", dump_only=True)
    alerts = Number(dump_only=True)


class SetAsidePageShape(paging.PageShape):
    results = fields.List(fields.Nested(SetAsideShape), dump_only=True)


class TakenUpShape(Shape):
    message = Text(dump_only=True)
    trace_id = Text(dump_only=True)


SET_ASIDE = SetAsideShape()
PAGE = SetAsidePageShape()
TAKEN_UP = TakenUpShape()


def index() -> dict[str, Any]:
    """List what was set aside, newest first, page by page."""
    who = viewer()
    scope = Scope(who.account.id, teams=None if who.is_admin else access.permitted_teams(who))
    total = aside.ordered(scope).count()
    return paging.envelope(
        aside.ordered(scope, newest_first=True),
        paging.asked(),
        lambda rows: aside.listed([Key(*row) for row in rows]),
        count=total,
    )


def retrieve(aside_id: str) -> SetAside:
    """Retrieve one thing that was set aside."""
    return _found(aside_id)


def replay(aside_id: str) -> dict[str, str]:
    """Take up again what was set aside, as if it had just come in."""
    found = _found(aside_id)
    changed = aside.replay([found.key], display_name(viewer().user))
    if changed.orphans:
        bad("id", "What it came in by was deleted: it can only be dropped.")
    _must_be_ours(changed)
    _ring(changed, current_app.config["SETTINGS"].road_cuts)
    log.info("taken up again", ids=changed.ids)
    return {"message": "It is taken up again.", "trace_id": found.trace_id}


def destroy(aside_id: str) -> None:
    """Drop what was set aside: nobody will work on it any more."""
    changed = aside.drop([_found(aside_id).key], display_name(viewer().user))
    _must_be_ours(changed)
    log.info("dropped", ids=changed.ids)


def _found(aside_id: str) -> SetAside:
    """The one with this id: NotFound for another account's, Forbidden within."""
    identity = aside_id if _SHORT.fullmatch(aside_id) else aside_id.lower()
    found = aside.find(identity) if _SHORT.fullmatch(identity) or access.is_uuid(identity) else None
    if found is None or found.account != viewer().account.id:
        raise NotFound
    if found.team is None:
        access.access_account(viewer(), ADMIN)
    else:
        access.require(viewer(), found.team)
    return found


def _must_be_ours(changed: Changed) -> None:
    if not changed.ids:
        bad("id", "Somebody else took it up, or dropped it, in the meantime.")


def _ring(changed: Changed, cuts: Sequence[str]) -> None:
    road = segments(cuts)
    for service, stage in changed.lanes:
        bell.ring_road(service, covering(road, stage).name if stage else road[0].name)
    for router in changed.routers:
        bell.ring_router(router)
