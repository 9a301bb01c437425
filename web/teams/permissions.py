"""What all members of the account may do with objects of a team: contract sections 3.3 and 3.15."""

from marshmallow import validate

from models.tables.accounts import User
from models.tables.teams import Team
from web.http import access, recording, serialization
from web.http.auth import viewer
from web.http.fields import List, Schema, Text, explain
from web.http.permissions import MANAGER, TEAM_PERMISSIONS
from web.http.resource import config_transaction
from web.http.writing import Mode, Part, Writing, begin_change, read_update


class TeamPermissionSchema(Schema):
    """The permissions of a team, with the ID of the team, for published clients (contract 5, row 38)."""

    unique_id = Text(dump_only=True, metadata=explain("The unique_id of the team."))
    account_permissions = List(
        Text(validate=validate.OneOf(TEAM_PERMISSIONS)),
        required=True,
        metadata=explain("What all members of the account may do in this team."),
    )


PERMISSION = TeamPermissionSchema()


def retrieve(team_id: str) -> Team:
    """Get the permissions that a team gives to all members of the account."""
    return access.access_team(viewer(), team_id)


def update(team_id: str) -> Team:
    """Update the permissions that a team gives to all members of the account."""
    team = access.access_team(viewer(), team_id)
    writing = read_update()
    values = serialization.read_as(PERMISSION, partial=writing.mode is Mode.PATCH)
    return write(team, values, writing)


def write(team: Team, values: dict[str, list[str]], writing: Writing) -> Team:
    """Change the permissions that a team gives, if the values have them."""
    with config_transaction():
        team = begin_change(team, writing, PART)
        if "account_permissions" in values:
            before = team.account_permissions
            team.account_permissions = list(dict.fromkeys(values["account_permissions"]))
            team.save(only=[Team.account_permissions])
            changes = recording.describe_permissions(team.name, before, team.account_permissions)
            if changes:
                members = User.select(User.id).where(User.account == team.account_id)
                recording.record_shared_rights(members, "team_permissions_changed", changes)
    return team


def _describe(team: Team) -> dict[str, object]:
    return {"account_permissions": team.account_permissions}


PART = Part("team", "permissions", _describe, PERMISSION.dump, write=write, permission=MANAGER)
