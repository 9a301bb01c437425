"""The tags on an incident: contract section 3.8."""

from typing import Any

import peewee

from models.domain.identity import is_uuid
from models.domain.reasons import make_reason
from models.store.ids import make_uuid
from models.tables.incidents import Incident, IncidentTag
from models.tables.teams import Tag
from web.http.auth import now
from web.http.errors import NotFound, reject
from web.http.fields import Reference, Text, explain
from web.http.resource import lock_row
from web.incidents.schemas import IncidentTagSchema
from web.incidents.sub_resource import IncidentResource, get_author_name, log_change
from web.services.services import get_team_row


class IncidentTagWriteSchema(IncidentTagSchema):
    """The body of a create: a tag of the incident's team."""

    unique_id = Text(dump_only=True)
    team_tag = Reference(
        required=True, blank=False, metadata=explain("The unique_id of a tag of the incident's team.")
    )


class IncidentTags(IncidentResource[IncidentTag]):
    """The tags of an incident, each once. They are tags of its team."""

    model = IncidentTag
    noun = "incident tag"
    schema = IncidentTagWriteSchema()
    parent_field = IncidentTag.incident
    id_arg = "incident_tag_id"

    def select_rows(self, parent: Incident) -> "peewee.ModelSelect[IncidentTag]":
        return IncidentTag.select(IncidentTag, Tag).join(Tag).where(IncidentTag.incident == parent)

    def find_by_id(self, parent: Incident, unique_id: str) -> IncidentTag:
        """Find a tag of the incident by its own ID or by the ID of the team's tag."""
        known = unique_id.lower()
        if not is_uuid(known):
            raise NotFound
        by_id = (IncidentTag.unique_id == known) | (Tag.unique_id == known)
        row = self.select_rows(parent).where(by_id).first()
        if row is None:
            raise NotFound
        tag: IncidentTag = row
        return tag

    def check_values(
        self, values: dict[str, Any], parent: Incident, row: IncidentTag | None
    ) -> dict[str, object]:
        if "team_tag" not in values:
            return {}
        return {"team_tag": get_team_row(Tag, parent.team_id, values["team_tag"], "team_tag")}

    def insert(self, parent: Incident, values: dict[str, Any]) -> IncidentTag:
        tag = values["team_tag"]
        query = IncidentTag.insert(
            unique_id=make_uuid(), incident=parent, team_tag=tag, creation_date=now()
        ).on_conflict(action="IGNORE", conflict_target=[IncidentTag.incident, IncidentTag.team_tag])
        made = next(iter(query.returning(IncidentTag).execute()), None)
        if made is None:
            reject("team_tag", "The incident already has this tag.")
        log_change(parent, "tagged", make_reason("tag_added", tag=tag.name, by=get_author_name()))
        return made

    def change(self, row: IncidentTag, values: dict[str, Any]) -> None:
        """Replace a tag. The lock of the incident prevents two requests from adding the same tag twice."""
        tag = values.get("team_tag", row.team_tag)
        if tag.id == row.team_tag_id:
            return
        lock_row(row.incident)
        if self.select_rows(row.incident).where(IncidentTag.team_tag == tag).exists():
            reject("team_tag", "The incident already has this tag.")
        super().change(row, values)
        log_change(
            row.incident,
            "tagged",
            make_reason("tag_replaced", before=row.team_tag.name, tag=tag.name, by=get_author_name()),
        )

    def remove(self, row: IncidentTag) -> None:
        super().remove(row)
        log_change(
            row.incident,
            "tagged",
            make_reason("tag_removed", tag=row.team_tag.name, by=get_author_name()),
        )


INCIDENT_TAGS = IncidentTags()
