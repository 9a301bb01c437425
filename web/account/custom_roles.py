"""Custom roles of an account and of its members: contract section 3.1."""

from typing import NoReturn

import peewee
from marshmallow import fields, validate

from models.store.store import store
from models.tables.accounts import Account, CustomRole, User
from web.http import access, recording, serialization
from web.http.auth import viewer
from web.http.errors import reject
from web.http.fields import LONG_TEXT, List, Reference, Schema, Text, explain
from web.http.permissions import ACCOUNT_PERMISSIONS, ADMIN, ReadWrite
from web.http.resource import Resource, config_transaction
from web.http.writing import Mode, Part, Writing, begin_change, read_writing


class BasicRoleSchema(Schema):
    """A role in the answer to a write."""

    unique_id = Text(dump_only=True)
    name = Text(metadata=explain("The name of the role, unique in the account."))
    description = Text(limit=LONG_TEXT)


class CustomRoleSchema(BasicRoleSchema):
    """A role. Its permissions are stored as sent."""

    permissions = List(
        Text(validate=validate.OneOf(ACCOUNT_PERMISSIONS)),
        required=True,
        metadata=explain("What the role allows in all teams of the account."),
    )


class UserRoleSchema(Schema):
    user = Text(attribute="username", dump_only=True)
    custom_role = Reference(required=True, metadata=explain("The unique_id of the custom role; null: none."))
    custom_role_details = fields.Function(
        lambda user: {"name": user.custom_role.name} if user.custom_role else {},
        metadata=explain("An object with the `name` of the role; empty without a role."),
    )


class CustomRoles(Resource[CustomRole, Account]):
    """Permissions of plain members in all teams of the account. The names of roles are unique."""

    model = CustomRole
    noun = "custom role"
    schema = CustomRoleSchema()
    write_response = BasicRoleSchema()
    parent_field = CustomRole.account
    id_arg = "custom_role_id"
    permissions = ReadWrite("member_read", ADMIN)
    defaults = {"name": ""}

    def get_parent(self, **ids: str) -> Account:
        return access.access_account(viewer())

    def insert(self, parent: Account, values: dict[str, object]) -> CustomRole:
        try:
            row = super().insert(parent, values)
        except peewee.IntegrityError:
            _refuse_name()
        self.record_return(row)
        return row

    def record_return(self, row: CustomRole) -> None:
        changes = recording.describe_permissions(row.name, (), row.permissions)
        _record(row, changes or f"{row.name}: no permissions")

    def change(self, row: CustomRole, values: dict[str, object]) -> None:
        own = CustomRole.select(CustomRole.permissions).where(CustomRole.id == row.id)
        before = store().for_update(own).get().permissions
        try:
            super().change(row, values)
        except peewee.IntegrityError:
            _refuse_name()
        if "permissions" in values:
            current = CustomRole.get_by_id(row.id)
            changes = recording.describe_permissions(current.name, before, current.permissions)
            if changes:
                _record(current, changes)

    def remove(self, row: CustomRole) -> None:
        _record(row, f"{row.name}: removed")
        super().remove(row)


def _record(row: CustomRole, detail: str) -> None:
    persons = User.select(User.id).where(User.custom_role == row)
    recording.record_shared_rights(persons, "custom_role_changed", detail)


def _refuse_name() -> NoReturn:
    reject("name", "Another role of the account has this name.")


CUSTOM_ROLES = CustomRoles()
USER_ROLE = UserRoleSchema()


def get_user_role(username: str) -> User:
    """Get the custom role of a member."""
    return access.access_user(viewer(), username)


def assign(username: str) -> User:
    """Give a member a custom role, or remove it. Only a plain user has the permissions of the role."""
    user = access.access_user(viewer(), username)
    return give(user, serialization.read_body()["custom_role"], read_writing(Mode.PATCH))


def give(user: User, role_id: str | None, writing: Writing) -> User:
    """Give a member the custom role with this id; None: remove the role of the member."""
    access.require_rank(viewer(), user.role)
    with config_transaction():
        role = _find_role(role_id) if role_id else None
        user = begin_change(user, writing, ROLE_OF_USER)
        user.custom_role = role
        User.update(custom_role=user.custom_role).where(User.id == user.id).execute()
        name = user.custom_role.name if user.custom_role else ""
        recording.record(user, "role_changed", f"custom role {name}" if name else "no custom role")
    return user


def _find_role(unique_id: str) -> CustomRole:
    """Return and lock the role with this id, so that no other request deletes it first."""
    query = CustomRole.select().where(
        CustomRole.account == viewer().account, CustomRole.unique_id == unique_id
    )
    role: CustomRole | None = store().for_update(query).first()
    if role is None:
        reject("custom_role", f"{unique_id} is not a custom role of this account.")
    return role


def _describe(user: User) -> dict[str, object]:
    return {"custom_role": user.custom_role.unique_id if user.custom_role else None}


def _give_again(user: User, values: dict[str, str | None], writing: Writing) -> User:
    return give(user, values["custom_role"], writing)


ROLE_OF_USER = Part(
    "account member",
    "",
    _describe,
    USER_ROLE.dump,
    fields=("custom_role",),
    write=_give_again,
    permission=ADMIN,
)
