"""Notes of people and rules on an incident: contract section 3.8."""

from datetime import datetime

import peewee
from flask import Response
from marshmallow import fields

from models.domain.effects import AddNote, Author, RecordLog
from models.domain.reasons import make_reason
from models.store.ids import make_short_id
from models.tables.accounts import User, get_display_name
from models.tables.incidents import Incident, IncidentNote
from pipeline.sources.reading.cleaning import SUMMARY_LIMIT
from web.http import access, client_profile, paging, serialization
from web.http.auth import now, viewer
from web.http.fields import Moment, Number, RawData, Schema, Text, Username, explain
from web.http.permissions import MANAGER
from web.http.writing import Writing
from web.incidents.schemas import Summary
from web.incidents.sub_resource import (
    IncidentResource,
    build_viewer_author,
    get_author_name,
    log_change,
    write_effects,
)

# Author of a note that a rule wrote.
RULE_AUTHOR = "Alert rule"


class NoteText(Summary):
    """A text with one or more lines that is not blank. It is refused, not truncated: a person wrote it."""

    default_error_messages = {
        "blank": "This may not be blank.",
        "too_long": f"Longer than maximum length {SUMMARY_LIMIT}.",
    }

    def _deserialize(self, value: object, attr: str | None, data: RawData, **kwargs: object) -> str:
        if isinstance(value, str) and len(value.strip()) > SUMMARY_LIMIT:
            raise self.make_error("too_long")
        text = super()._deserialize(value, attr, data, **kwargs)
        if not text:
            raise self.make_error("blank")
        return text


class IncidentNoteSchema(Schema):
    """A note of a person or of an alert rule."""

    unique_id = Text(dump_only=True)
    incident = Number(attribute="incident.incident_number", dump_only=True)
    user = Username(
        dump_only=True, metadata=explain("The username of the author; null: an alert rule wrote the note.")
    )
    note = NoteText(
        required=True,
        metadata=explain("The text of the note, at most 16,384 characters; a longer one is refused."),
    )
    user_name = fields.Function(
        lambda row: get_display_name(row.user) if row.user else RULE_AUTHOR,
        metadata=explain("The full name of the author; `Alert rule` for a note of a rule."),
    )
    creation_date = Moment(dump_only=True)


class IncidentNotes(IncidentResource[IncidentNote]):
    """The notes on an incident, oldest first. A plain member can change only their own notes."""

    model = IncidentNote
    noun = "incident note"
    put_may_omit = ("note",)
    schema = IncidentNoteSchema()
    parent_field = IncidentNote.incident
    id_arg = "note_id"
    paged = True

    def select_rows(self, parent: Incident) -> "peewee.ModelSelect[IncidentNote]":
        notes = IncidentNote.select(IncidentNote, User).join(User, peewee.JOIN.LEFT_OUTER)
        return notes.where(IncidentNote.incident == parent)

    def index(self, **ids: str) -> Response:
        """Return an array, or a page for a published client (contract 1.6)."""
        parent = self.get_parent(**ids)
        rows = self.select_rows(parent).order_by(IncidentNote.creation_date, IncidentNote.id)

        def show(page: list[IncidentNote]) -> list[object]:
            dumped: list[object] = self.schema.dump(
                [self._set_parent(parent, row) for row in page], many=True
            )
            return dumped

        if not client_profile.current().has_paged_lists:
            return paging.build_array(rows, show)
        return serialization.build_response(
            paging.build_page(rows, paging.read_page(), show, count=rows.count())
        )

    def add(self, parent: Incident, values: dict[str, object], writing: Writing) -> IncidentNote:
        with self.transaction():
            unique_id = write_note(parent, str(values["note"]), build_viewer_author(), now())
        return self._set_parent(parent, self.find_by_id(parent, unique_id))

    def require_row_write(self, row: IncidentNote) -> None:
        """Raise Forbidden if the viewer is a plain member and another person wrote the note."""
        if row.user_id != viewer().user.id and self.permissions.write not in viewer().role_permissions:
            access.require_permission(viewer(), row.incident.team_id, MANAGER)

    def change(self, row: IncidentNote, values: dict[str, object]) -> None:
        self.require_row_write(row)
        super().change(row, values)
        log_change(row.incident, "noted", make_reason("note_changed", by=get_author_name()))

    def remove(self, row: IncidentNote) -> None:
        self.require_row_write(row)
        super().remove(row)
        log_change(row.incident, "noted", make_reason("note_deleted", by=get_author_name()))


def write_note(incident: Incident, text: str, author: Author, at: datetime) -> str:
    """Write a note of a person and the entry in the incident timeline. Return its unique_id."""
    note = AddNote(incident.unique_id, make_short_id(), text, at, author.user)
    why = make_reason("note_written", by=author.name)
    write_effects(incident, [note, RecordLog(incident.unique_id, at, "noted", why, author)])
    return note.unique_id


INCIDENT_NOTES = IncidentNotes()
