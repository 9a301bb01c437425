"""What a team writes about its incidents afterwards: contract sections 3.11 and 4.10."""

from contextlib import AbstractContextManager
from typing import Any

from marshmallow import fields, pre_load

from models.accounts import User, display_name
from models.base import store
from models.ids import new_uuid
from models.incidents import Incident
from models.postmortems import Postmortem, PostmortemIncident
from models.teams import Team
from web.auth import now
from web.errors import bad
from web.permissions import named
from web.resource import Resource, attach
from web.shapes import Moment, Number, Part, Reference, Several, Shape, Text, Username
from web.teams import account_member

# A long story in HTML. Lists hold those of all postmortems.
LONGEST_STORY = 256 * 1024


class AboutShape(Shape):
    """An incident that it is about: {"incident": id}, or in its place the id, or the incident itself."""

    unique_id = Text(dump_only=True)
    incident = Reference(required=True, blank=False)

    @pre_load
    def _one_form(self, data: Any, **kwargs: Any) -> Any:
        return {"incident": data} if isinstance(data, str) else data


class PostmortemShape(Shape):
    """A postmortem as it is written."""

    unique_id = Text(dump_only=True)
    author = Username(required=True, blank=False)
    status = Text()
    postmortem_data = Text(limit=LONGEST_STORY)
    incidents = Several(Part(AboutShape), attribute="postmortemincident_set", required=True)
    author_name = fields.Function(lambda postmortem: display_name(postmortem.author))
    title = Text()
    download_status = Number(least=0, most=4)


class IncidentNameShape(Shape):
    unique_id = Text(dump_only=True)
    title = Text(dump_only=True)
    incident_number = Number(dump_only=True)


class ShownAboutShape(Shape):
    unique_id = Text(dump_only=True)
    incident = fields.Nested(IncidentNameShape, dump_only=True)


class ShownPostmortemShape(PostmortemShape):
    """A postmortem as it is read. There is no export, and so nowhere to fetch one."""

    incidents = Several(fields.Nested(ShownAboutShape), attribute="postmortemincident_set", dump_only=True)
    amazon_link = fields.Function(lambda postmortem: None)
    creation_date = Moment(dump_only=True)
    updated_at = Moment(dump_only=True)


class Postmortems(Resource):
    """The postmortems of a team, each about incidents of the team."""

    model = Postmortem
    noun = "postmortem"
    schema = PostmortemShape()
    shown = ShownPostmortemShape()
    parent_field = Postmortem.team
    id_arg = "postmortem_id"
    needs = named("postmortem")

    def writing(self) -> AbstractContextManager[None]:
        return store().writing()

    def rows(self, parent: Team) -> Any:
        return Postmortem.select(Postmortem, User).join(User).where(Postmortem.team == parent)

    def filled(self, rows: list[Any]) -> list[Any]:
        about = PostmortemIncident.select(PostmortemIncident, Incident).join(Incident)
        attach(rows, "postmortemincident_set", about, PostmortemIncident.postmortem)
        return rows

    def checked(self, values: dict[str, Any], parent: Team, row: Any) -> dict[str, Any]:
        if "author" in values:
            values["author"] = account_member(parent.account, values["author"], "author")
        if "postmortemincident_set" in values:
            named = [given["incident"] for given in values["postmortemincident_set"]]
            values["postmortemincident_set"] = _incidents(parent, named)
        return {**values, "updated_at": now()}

    def insert(self, parent: Team, values: dict[str, Any]) -> Any:
        incidents = values.pop("postmortemincident_set")
        row = super().insert(parent, values)
        _write_about(row, incidents)
        return row

    def change(self, row: Any, values: dict[str, Any]) -> None:
        incidents = values.pop("postmortemincident_set", None)
        super().change(row, values)
        if incidents is not None:
            _write_about(row, incidents)


def _incidents(team: Team, named: list[str]) -> list[Incident]:
    """The incidents of the team that a body names, each once, or BadRequest."""
    found = Incident.select().where(Incident.team == team, Incident.unique_id.in_(named)) if named else ()
    known = {incident.unique_id: incident for incident in found}
    if not known.keys() >= set(named):
        bad("incidents", "The team has no such incident.")
    return [known[unique_id] for unique_id in dict.fromkeys(named)]


def _write_about(postmortem: Postmortem, incidents: list[Incident]) -> None:
    """What it is about from now on; what stays keeps its id."""
    about = PostmortemIncident
    of_it = about.postmortem == postmortem
    about.delete().where(of_it, about.incident.not_in(incidents)).execute()
    there = {row.incident_id for row in about.select().where(of_it)}
    new = [
        {"unique_id": new_uuid(), "postmortem": postmortem, "incident": incident}
        for incident in incidents
        if incident.id not in there
    ]
    if new:
        about.insert_many(new).execute()


POSTMORTEMS = Postmortems()
