"""The profile of the viewer in one answer: contract section 3.2."""

from marshmallow import fields

from models.domain.enums import AccountRole
from models.tables.teams import Team
from web.account.notification_preferences import (
    CONTACTS,
    FORWARDING_RULES,
    NOTIFICATION_RULES,
    ContactSchema,
    ForwardingRuleSchema,
    NotificationRuleSchema,
)
from web.http import access
from web.http.auth import viewer
from web.http.fields import Choice, Schema, Text, Username, explain
from web.http.permissions import ACCOUNT_PERMISSIONS


class OwnRuleSchema(NotificationRuleSchema):
    """A notification rule in the profile, with its type and its user."""

    type = fields.Function(lambda rule: "notification_rule")
    user = Username(dump_only=True, metadata=explain("The username of the person to whom the rule belongs."))


class OwnTeamSchema(Schema):
    unique_id = Text(dump_only=True)
    name = Text(dump_only=True)
    private = fields.Function(lambda team: not team.account_permissions)
    members = fields.Function(
        lambda team: [], metadata=explain("Always empty here. The operations of the team show its members.")
    )


class ProfileSchema(Schema):
    username = Text()
    email = Text()
    first_name = Text()
    last_name = Text()
    role = Choice(AccountRole, metadata=explain("The role in the account."))
    contacts = fields.List(fields.Nested(ContactSchema()), metadata=explain("The person's contacts."))
    notification_rules = fields.List(
        fields.Nested(OwnRuleSchema()), metadata=explain("How the person is notified.")
    )
    forwarding_rules = fields.List(
        fields.Nested(ForwardingRuleSchema()),
        metadata=explain("When somebody else is notified instead of the person."),
    )
    permissions = fields.List(
        Text(),
        metadata=explain(
            "What the person may do in all teams: by the custom role, or everything for owners and admins."
        ),
    )
    teams = fields.List(
        fields.Nested(OwnTeamSchema()), metadata=explain("The teams of which the person is a member.")
    )


PROFILE = ProfileSchema()


def show() -> dict[str, object]:
    """Get your profile. It has your contacts and rules, your teams, and your permissions in all of them."""
    user = viewer().user
    return {
        **{name: getattr(user, name) for name in ("username", "email", "first_name", "last_name", "role")},
        "contacts": CONTACTS.index(username=user.username),
        "notification_rules": NOTIFICATION_RULES.index(username=user.username),
        "forwarding_rules": FORWARDING_RULES.index(username=user.username),
        "permissions": ACCOUNT_PERMISSIONS if viewer().is_admin else sorted(viewer().role_permissions),
        "teams": _list_teams(),
    }


def _list_teams() -> list[Team]:
    own = Team.select().where(Team.id.in_(access.select_own_teams(viewer())))
    return list(own.order_by(Team.creation_date, Team.id))
