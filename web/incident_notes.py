"""What people, and rules, have to say about an incident: contract section 3.8."""

from typing import Any

import peewee
from marshmallow import fields

from models.accounts import User, display_name
from models.ids import new_short_id
from models.incidents import Incident, IncidentNote
from web import access, paging, profile, wire
from web.auth import now, viewer
from web.incident_parts import PartOfIncident, note
from web.incident_shapes import Summary
from web.permissions import MANAGER
from web.shapes import Moment, Number, Shape, Text, Username

# Who wrote a note that no person wrote.
BY_RULE = "Alert rule"


class Words(Summary):
    """Text of several lines that says something."""

    default_error_messages = {"blank": "This may not be blank."}

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> str:
        text = super()._deserialize(value, attr, data, **kwargs)
        if not text:
            raise self.make_error("blank")
        return text


class IncidentNoteShape(Shape):
    """`incident` is the number of the incident; a rule's note has no user."""

    unique_id = Text(dump_only=True)
    incident = Number(attribute="incident.incident_number", dump_only=True)
    user = Username(dump_only=True)
    note = Words(required=True)
    user_name = fields.Function(lambda row: display_name(row.user) if row.user else BY_RULE)
    creation_date = Moment(dump_only=True)


class IncidentNotes(PartOfIncident):
    """The notes on an incident, oldest first. A plain member changes only what is their own."""

    model = IncidentNote
    noun = "incident note"
    put_may_omit = ("note",)
    schema = IncidentNoteShape()
    parent_field = IncidentNote.incident
    id_arg = "note_id"
    pages = True

    def rows(self, parent: Incident) -> Any:
        notes = IncidentNote.select(IncidentNote, User).join(User, peewee.JOIN.LEFT_OUTER)
        return notes.where(IncidentNote.incident == parent)

    def index(self, **ids: str) -> Any:
        """An array, or a page of it for a published client (contract 1.6)."""
        if not profile.current().pages_sublists:
            return super().index(**ids)
        parent = self.parent(**ids)
        rows = self.rows(parent).order_by(IncidentNote.creation_date, IncidentNote.id)

        def show(page: list[IncidentNote]) -> list[Any]:
            shown: list[Any] = self.schema.dump([self._under(parent, row) for row in page], many=True)
            return shown

        return wire.answer(paging.envelope(rows, paging.asked(), show, count=rows.count()))

    def insert(self, parent: Incident, values: dict[str, Any]) -> IncidentNote:
        made = IncidentNote.create(
            unique_id=new_short_id(), incident=parent, user=viewer().user, creation_date=now(), **values
        )
        note(parent, "noted", "note written")
        return made

    def change(self, row: IncidentNote, values: dict[str, Any]) -> None:
        _require_hold_of(row)
        super().change(row, values)
        note(row.incident, "noted", "note changed")

    def remove(self, row: IncidentNote) -> None:
        _require_hold_of(row)
        super().remove(row)
        note(row.incident, "noted", "note deleted")


def _require_hold_of(row: IncidentNote) -> None:
    """Forbidden for a plain member when somebody else wrote it."""
    if row.user_id != viewer().user.id and IncidentNotes.needs.write not in viewer().role_gives:
        access.require(viewer(), row.incident.team_id, MANAGER)


INCIDENT_NOTES = IncidentNotes()
