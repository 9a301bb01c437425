"""Postmortems of a team: contract sections 3.11 and 4.10."""

from typing import Any

import peewee
from marshmallow import fields, pre_load

from models.store.ids import make_uuid
from models.tables.accounts import User, get_display_name
from models.tables.incidents import Incident
from models.tables.postmortems import Postmortem, PostmortemIncident
from models.tables.teams import Team
from web.http.auth import now
from web.http.errors import collect_refusals, reject_places
from web.http.fields import List, Moment, Nested, Number, Reference, Schema, Text, Username, explain
from web.http.permissions import get_permissions
from web.http.resource import Resource, attach
from web.teams.teams import get_account_member

# The largest number of characters of a report. A list contains the reports of all its postmortems.
MAX_HTML = 256 * 1024


class PostmortemIncidentSchema(Schema):
    """An incident of a postmortem: {"incident": id}, the ID alone, or the incident as an object."""

    unique_id = Text(dump_only=True)
    incident = Reference(
        required=True, blank=False, metadata=explain("The unique_id of an incident of the team.")
    )

    @pre_load
    def _normalize(self, data: object, **kwargs: object) -> object:
        return {"incident": data} if isinstance(data, str) else data


class PostmortemSchema(Schema):
    """A postmortem in a request."""

    unique_id = Text(dump_only=True)
    author = Username(required=True, blank=False, metadata=explain("The username of the author."))
    status = Text(metadata=explain("Any text, for example `Draft`."))
    postmortem_data = Text(limit=MAX_HTML, metadata=explain("The text of the postmortem, as HTML."))
    incidents = List(
        Nested(PostmortemIncidentSchema),
        attribute="postmortemincident_set",
        required=True,
        metadata=explain("The incidents that the postmortem is about."),
    )
    author_name = fields.Function(
        lambda postmortem: get_display_name(postmortem.author),
        metadata=explain("The full name of the author."),
    )
    title = Text()
    download_status = Number(
        min_value=0,
        max_value=4,
        metadata=explain(
            "The state of an export as clients set it: 0 or 1 idle, 2 started, 3 ready, 4 failed."
            " Tocsin exports nothing."
        ),
    )


class IncidentNameSchema(Schema):
    unique_id = Text(dump_only=True)
    title = Text(dump_only=True)
    incident_number = Number(dump_only=True)


class ShownPostmortemIncidentSchema(Schema):
    unique_id = Text(dump_only=True)
    incident = fields.Nested(IncidentNameSchema, dump_only=True, metadata=explain("The incident."))


class ShownPostmortemSchema(PostmortemSchema):
    """A postmortem in an answer. The URL of an export is empty, because Tocsin has no export."""

    incidents = List(
        fields.Nested(ShownPostmortemIncidentSchema),
        attribute="postmortemincident_set",
        dump_only=True,
        metadata=explain("The incidents that the postmortem is about."),
    )
    amazon_link = fields.Function(
        lambda postmortem: None, metadata=explain("Always null: Tocsin exports nothing.")
    )
    creation_date = Moment(dump_only=True)
    updated_at = Moment(dump_only=True)


class Postmortems(Resource[Postmortem, Team]):
    """The postmortems of a team. Each is about incidents of the team."""

    model = Postmortem
    noun = "postmortem"
    schema = PostmortemSchema()
    response = ShownPostmortemSchema()
    parent_field = Postmortem.team
    id_arg = "postmortem_id"
    permissions = get_permissions("postmortem")
    is_configuration = False
    # What people write about incidents is no configuration, and does not come back.
    records_changes = False

    def select_rows(self, parent: Team) -> "peewee.ModelSelect[Postmortem]":
        return Postmortem.select(Postmortem, User).join(User).where(Postmortem.team == parent)

    def fill(self, rows: list[Postmortem]) -> list[Postmortem]:
        links = PostmortemIncident.select(PostmortemIncident, Incident).join(Incident)
        attach(rows, "postmortemincident_set", links, PostmortemIncident.postmortem)
        return rows

    def check_values(self, values: dict[str, Any], parent: Team, row: Postmortem | None) -> dict[str, object]:
        with collect_refusals() as check:
            if "author" in values:
                with check():
                    values["author"] = get_account_member(parent.account, values["author"], "author")
            if "postmortemincident_set" in values:
                incident_ids = [link["incident"] for link in values["postmortemincident_set"]]
                with check():
                    values["postmortemincident_set"] = _find_incidents(parent, incident_ids)
        return {**values, "updated_at": now()}

    def insert(self, parent: Team, values: dict[str, Any]) -> Postmortem:
        incidents = values.pop("postmortemincident_set")
        row = super().insert(parent, values)
        _replace_incidents(row, incidents)
        return row

    def change(self, row: Postmortem, values: dict[str, Any]) -> None:
        incidents = values.pop("postmortemincident_set", None)
        super().change(row, values)
        if incidents is not None:
            _replace_incidents(row, incidents)


def _find_incidents(team: Team, incident_ids: list[str]) -> list[Incident]:
    """Return the incidents of the team that a body names, each once. Raise BadRequest for unknown ones."""
    found = (
        Incident.select().where(Incident.team == team, Incident.unique_id.in_(incident_ids))
        if incident_ids
        else ()
    )
    known = {incident.unique_id: incident for incident in found}
    reject_places(
        (f"incidents.{place}", f"{unique_id} is not an incident of this team.")
        for place, unique_id in enumerate(incident_ids)
        if unique_id not in known
    )
    return [known[unique_id] for unique_id in dict.fromkeys(incident_ids)]


def _replace_incidents(postmortem: Postmortem, incidents: list[Incident]) -> None:
    """Replace the incidents of a postmortem. An incident that stays keeps its ID in this postmortem."""
    links = PostmortemIncident
    of_it = links.postmortem == postmortem
    links.delete().where(of_it, links.incident.not_in(incidents)).execute()
    linked = {row.incident_id for row in links.select().where(of_it)}
    new = [
        {"unique_id": make_uuid(), "postmortem": postmortem, "incident": incident}
        for incident in incidents
        if incident.id not in linked
    ]
    if new:
        links.insert_many(new).execute()


POSTMORTEMS = Postmortems()
