"""List, replay and drop dead letters (under /api/tocsin/dead-letters/).

Members may do this for the dead letters of their teams. Only owners and admins may do it for dead letters
without a service, for example those of a router.
"""

from collections.abc import Collection, Sequence

from flask import current_app
from marshmallow import fields

from models.domain.identity import is_short_id, is_uuid
from models.reports import dead_letters
from models.reports.dead_letters import DeadLetter, Key, Scope
from models.tables.accounts import get_display_name
from models.write import change_dead_letters
from models.write.change_dead_letters import ChangeResult
from pipeline.topology import build_segments, find_segment
from runtime.late_logs import LateLogger
from web.http import access, paging
from web.http.auth import Viewer, operation, viewer
from web.http.errors import NotFound, reject
from web.http.fields import Moment, Number, Schema, Text, explain
from web.http.permissions import ADMIN
from workers import queue

log = LateLogger()


class OwnerSchema(Schema):
    unique_id = Text(dump_only=True)
    name = Text(dump_only=True)


class PipelineStepSchema(Schema):
    stage = Text(dump_only=True, metadata=explain("The stage of the pipeline."))
    reason = Text(dump_only=True, metadata=explain("What the stage decided and why, as a sentence."))


class DeadLetterSchema(Schema):
    """A dead letter: a whole body or a single alert."""

    id = Text(
        dump_only=True, metadata=explain("The trace_id of a whole body, or the unique_id of a single alert.")
    )
    trace_id = Text(dump_only=True)
    position = Number(
        allow_none=True,
        dump_only=True,
        metadata=explain("The place of the alert in its body, from 0; null: a whole body."),
    )
    accepted_at = Moment(dump_only=True, metadata=explain("When Tocsin accepted the request."))
    error = Text(dump_only=True, metadata=explain("Why it could not be processed."))
    source = Text(dump_only=True, metadata=explain("The application in whose form the body was sent."))
    service = fields.Nested(
        OwnerSchema, allow_none=True, dump_only=True, metadata=explain("The service; null: none, or deleted.")
    )
    integration = fields.Nested(
        OwnerSchema,
        allow_none=True,
        dump_only=True,
        metadata=explain("The integration; null: none, or deleted."),
    )
    router = fields.Nested(
        OwnerSchema,
        allow_none=True,
        dump_only=True,
        metadata=explain("The global router; null: none, or deleted."),
    )
    message = Text(
        allow_none=True, dump_only=True, metadata=explain("The message of the alert; null: a whole body.")
    )
    stages = fields.List(
        fields.Nested(PipelineStepSchema),
        dump_only=True,
        metadata=explain("What the stages decided before the error."),
    )
    body_bytes = Number(
        attribute="size", dump_only=True, metadata=explain("The length of the body in bytes.")
    )
    alerts = Number(dump_only=True, metadata=explain("How many alerts the body has."))


class DeadLetterPageSchema(paging.PageSchema):
    results = fields.List(fields.Nested(DeadLetterSchema), dump_only=True)


class ReplayedSchema(Schema):
    message = Text(dump_only=True, metadata=explain("A sentence for people."))
    trace_id = Text(dump_only=True)


DEAD_LETTER = DeadLetterSchema()
PAGE = DeadLetterPageSchema()
REPLAYED = ReplayedSchema()


def index() -> dict[str, object]:
    """List dead letters, newest first, page by page."""
    return find_page(viewer(), paging.read_page())


@operation("incident_read")
def find_page(who: Viewer, page: paging.Page) -> dict[str, object]:
    """Return a page of the dead letters that the viewer may see."""
    teams = None if who.is_admin else access.select_permitted_teams(who)
    scope = Scope(who.account.id, teams=teams)
    total = dead_letters.select_keys(scope).count()
    return paging.build_page(
        dead_letters.select_keys(scope, newest_first=True),
        page,
        _load,
        count=total,
    )


def _load(page: list[tuple[bool, int, int, int]]) -> list[DeadLetter]:
    return dead_letters.load_all([Key(*row) for row in page])


def retrieve(dead_letter_id: str) -> DeadLetter:
    """Get a dead letter."""
    return _access(dead_letter_id)


def replay(dead_letter_id: str) -> dict[str, str]:
    """Replay a dead letter. It is processed again as if it had just arrived."""
    return replay_one(viewer(), dead_letter_id)


def list_replayable(who: Viewer, found: Collection[DeadLetter]) -> set[str]:
    """Return the ids of those of these dead letters that the viewer may replay or drop, in one query."""
    permission = replay_one.permission
    teams = {each.team for each in found if each.team is not None}
    permitted = access.find_permitted_teams(who, permission, teams)
    return {each.id for each in found if (who.is_admin if each.team is None else each.team in permitted)}


@operation("incident_write")
def replay_one(who: Viewer, dead_letter_id: str) -> dict[str, str]:
    """Replay the dead letter with this id."""
    found = _access(dead_letter_id)
    changed = change_dead_letters.replay([found.key], get_display_name(who.user))
    if changed.owner_deleted:
        reject("id", "Its integration or router was deleted, so this dead letter can only be dropped.")
    _require_changed(changed)
    _enqueue(changed, current_app.config["SETTINGS"].pipeline_queues)
    log.info("dead letter replayed", ids=changed.ids)
    return {"message": "The dead letter is replayed.", "trace_id": found.trace_id}


def destroy(dead_letter_id: str) -> None:
    """Delete a dead letter. It can no longer be replayed."""
    changed = change_dead_letters.drop([_access(dead_letter_id).key], get_display_name(viewer().user))
    _require_changed(changed)
    log.info("dead letter dropped", ids=changed.ids)


def _access(dead_letter_id: str) -> DeadLetter:
    """Return the dead letter with this id.

    NotFound if it belongs to another account, Forbidden without the permission in its team.
    """
    identity = dead_letter_id if is_short_id(dead_letter_id) else dead_letter_id.lower()
    found = dead_letters.find(identity) if is_short_id(identity) or is_uuid(identity) else None
    if found is None or found.account != viewer().account.id:
        raise NotFound
    if found.team is None:
        access.access_account(viewer(), ADMIN)
    else:
        access.require_permission(viewer(), found.team)
    return found


def _require_changed(changed: ChangeResult) -> None:
    if not changed.ids:
        reject("id", "Somebody else has replayed or dropped this dead letter in the meantime.")


def _enqueue(changed: ChangeResult, splits: Sequence[str]) -> None:
    queues = build_segments(splits)
    for service, stage in changed.lanes:
        queue.enqueue_lane(service, find_segment(queues, stage).name if stage else queues[0].name)
    for router in changed.routers:
        queue.enqueue_router(router)
