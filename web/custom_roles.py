"""Custom roles of an account, and who has which: contract section 3.1."""

from typing import Any, NoReturn

import peewee
from marshmallow import fields, validate

from models.accounts import Account, CustomRole, User
from models.base import store
from web import access, wire
from web.auth import viewer
from web.errors import bad
from web.permissions import ADMIN, OF_ACCOUNT, Needs
from web.resource import Resource, configuring
from web.shapes import LONG_TEXT, Reference, Several, Shape, Text


class NamedRoleShape(Shape):
    """A role as writing it is answered."""

    unique_id = Text(dump_only=True)
    name = Text()
    description = Text(limit=LONG_TEXT)


class CustomRoleShape(NamedRoleShape):
    """A role; its permissions are kept as they came."""

    permissions = Several(Text(validate=validate.OneOf(OF_ACCOUNT)), required=True)


class UserRoleShape(Shape):
    user = Text(attribute="username", dump_only=True)
    custom_role = Reference(required=True)
    custom_role_details = fields.Function(
        lambda user: {"name": user.custom_role.name} if user.custom_role else {}
    )


class CustomRoles(Resource):
    """What plain members may do in all teams of the account; no two roles have the same name."""

    model = CustomRole
    noun = "custom role"
    schema = CustomRoleShape()
    answered = NamedRoleShape()
    parent_field = CustomRole.account
    id_arg = "custom_role_id"
    needs = Needs("member_read", ADMIN)
    defaults = {"name": ""}

    def parent(self, **ids: str) -> Account:
        return access.access_account(viewer())

    def insert(self, parent: Account, values: dict[str, Any]) -> CustomRole:
        try:
            return super().insert(parent, values)
        except peewee.IntegrityError:
            _refuse_name()

    def change(self, row: CustomRole, values: dict[str, Any]) -> None:
        try:
            super().change(row, values)
        except peewee.IntegrityError:
            _refuse_name()


def _refuse_name() -> NoReturn:
    bad("name", "Another role of the account has this name.")


CUSTOM_ROLES = CustomRoles()
USER_ROLE = UserRoleShape()


def of_user(username: str) -> User:
    """Retrieve the custom role of a member."""
    return access.access_user(viewer(), username)


def assign(username: str) -> User:
    """Give a member a custom role, or none; it counts while the member is a plain user."""
    user = access.access_user(viewer(), username)
    access.require_rank(viewer(), user.role)
    wanted = wire.body()["custom_role"]
    with configuring():
        user.custom_role = _role(wanted) if wanted else None
        User.update(custom_role=user.custom_role).where(User.id == user.id).execute()
    return user


def _role(unique_id: str) -> CustomRole:
    """The role that a body names, which nobody deletes before it is given."""
    query = CustomRole.select().where(
        CustomRole.account == viewer().account, CustomRole.unique_id == unique_id
    )
    role: CustomRole | None = store().for_update(query).first()
    if role is None:
        bad("custom_role", "The account has no such role.")
    return role
