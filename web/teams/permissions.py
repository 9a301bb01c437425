"""What a team lets all members of the account do: contract sections 3.3 and 3.15."""

from flask import request
from marshmallow import validate

from models.tables.teams import Team
from web.http import access, serialization
from web.http.auth import viewer
from web.http.fields import List, Schema, Text
from web.http.permissions import TEAM_PERMISSIONS
from web.http.resource import config_transaction


class TeamPermissionSchema(Schema):
    """Named by the team's own id, as the published clients use it (contract 5, row 38)."""

    unique_id = Text(dump_only=True)
    account_permissions = List(Text(validate=validate.OneOf(TEAM_PERMISSIONS)), required=True)


PERMISSION = TeamPermissionSchema()


def retrieve(team_id: str) -> Team:
    """Retrieve what a team lets everybody do."""
    return access.access_team(viewer(), team_id)


def update(team_id: str) -> Team:
    """Update what a team lets everybody do."""
    team = access.access_team(viewer(), team_id)
    values = serialization.read_as(PERMISSION, partial=request.method == "PATCH")
    if "account_permissions" in values:
        team.account_permissions = list(dict.fromkeys(values["account_permissions"]))
        with config_transaction():
            team.save(only=[Team.account_permissions])
    return team
