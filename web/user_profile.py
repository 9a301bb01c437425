"""Oneself in one answer: the profile of contract section 3.2."""

from typing import Any

from marshmallow import fields

from models.enums import AccountRole
from models.teams import Team
from web import access
from web.auth import viewer
from web.permissions import OF_ACCOUNT
from web.shapes import Choice, Shape, Text, Username
from web.users import (
    CONTACTS,
    FORWARDING_RULES,
    NOTIFICATION_RULES,
    ContactShape,
    ForwardingRuleShape,
    NotificationRuleShape,
)


class OwnRuleShape(NotificationRuleShape):
    """A notification rule as the profile gives it: it says what it is, and whose."""

    type = fields.Function(lambda rule: "notification_rule")
    user = Username(dump_only=True)


class OwnTeamShape(Shape):
    unique_id = Text(dump_only=True)
    name = Text(dump_only=True)
    private = fields.Function(lambda team: not team.account_permissions)
    # Who else is in it is told by the team itself.
    members = fields.Function(lambda team: [])


class ProfileShape(Shape):
    username = Text()
    email = Text()
    first_name = Text()
    last_name = Text()
    role = Choice(AccountRole)
    contacts = fields.List(fields.Nested(ContactShape()))
    notification_rules = fields.List(fields.Nested(OwnRuleShape()))
    forwarding_rules = fields.List(fields.Nested(ForwardingRuleShape()))
    permissions = fields.List(Text())
    teams = fields.List(fields.Nested(OwnTeamShape()))


PROFILE = ProfileShape()


def show() -> dict[str, Any]:
    """Retrieve oneself: how one is told, what one may do in all teams, and one's own teams."""
    user = viewer().user
    return {
        **{name: getattr(user, name) for name in ("username", "email", "first_name", "last_name", "role")},
        "contacts": CONTACTS.index(username=user.username),
        "notification_rules": NOTIFICATION_RULES.index(username=user.username),
        "forwarding_rules": FORWARDING_RULES.index(username=user.username),
        "permissions": OF_ACCOUNT if viewer().is_admin else sorted(viewer().role_gives),
        "teams": _teams(),
    }


def _teams() -> list[Team]:
    own = Team.select().where(Team.id.in_(access.own_teams(viewer())))
    return list(own.order_by(Team.creation_date, Team.id))
