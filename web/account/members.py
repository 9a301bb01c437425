"""The members of an account, and their offboarding: contract section 3.1."""

from typing import Any

import peewee

from models.domain.effects import Author
from models.domain.enums import AccountRole, AuthorKind, TeamRole
from models.people import offboarding, provisioning
from models.tables.accounts import Account, User, get_display_name
from models.tables.services import Service
from models.tables.teams import Team, TeamMember
from models.tables.users import ContactMethod
from pipeline.rules.action_table import names_user
from web.http import access, recording, serialization
from web.http.auth import now, viewer
from web.http.errors import Forbidden, NotFound, reject
from web.http.fields import (
    Boolean,
    Choice,
    Email,
    Moment,
    NestedSelf,
    Schema,
    Text,
    TimeZone,
    UserSchema,
    explain,
)
from web.http.permissions import MANAGER, MEMBER, ReadWrite
from web.http.resource import Resource, config_transaction, lock_row, lock_services
from web.http.writing import Mode, Part, Writing, begin_change, read_writing
from web.teams.teams import get_account_member
from workers import queue


class MemberNameSchema(UserSchema):
    """The user inside a member. The e-mail address cannot be changed with it."""

    username = Text()
    first_name = Text()
    last_name = Text()


class AccountMemberSchema(Schema):
    unique_id = Text(dump_only=True, metadata=explain("Identifies the membership. Paths use the username."))
    time_zone = TimeZone(
        metadata=explain("The IANA name of the person's time zone, for times in messages; default: `UTC`.")
    )
    user = NestedSelf(
        MemberNameSchema, required=True, metadata=explain("The person. The username cannot change.")
    )
    joining_date = Moment(dump_only=True)
    role = Choice(AccountRole, metadata=explain("The role in the account."))
    is_verified = Boolean(dump_only=True, metadata=explain("false until the invited person has joined."))


class FlatMemberSchema(AccountMemberSchema):
    """A member as the Go client sends it: the user's fields are not in a nested object."""

    user = NestedSelf(UserSchema, dump_only=True, metadata=explain("The person."))
    email = Email(limit=254, load_only=True, metadata=explain("The new e-mail address of the person."))
    first_name = Text(load_only=True)
    last_name = Text(load_only=True)


class RemoveMemberSchema(Schema):
    username = Text(required=True)


class Members(Resource[User, Account]):
    """The members of an account. Members may change themselves; others need the permission and the rank."""

    model = User
    noun = "account member"
    secrets = ("email",)
    owns_itself = True
    schema = AccountMemberSchema()
    parent_field = User.account
    id_arg = "username"
    permissions = ReadWrite(MEMBER, "member_write")
    order = ("joining_date", "id")

    def get_parent(self, **ids: str) -> Account:
        return viewer().account

    def select_rows(self, parent: Account) -> "peewee.ModelSelect[User]":
        return self.select_all().where(User.account == parent)

    def select_all(self) -> "peewee.ModelSelect[User]":
        return User.select().where(User.removed_at.is_null())

    def find_row(self, **ids: str) -> tuple[Account, User]:
        user = access.access_member(viewer(), ids["username"])
        if user.id != viewer().user.id:
            access.access_account(viewer())
        return viewer().account, user

    def check_values(self, values: dict[str, Any], parent: Account, row: User | None) -> dict[str, object]:
        assert row is not None, "members are invited, not created"
        if row.removed_at is not None:
            raise NotFound
        access.require_rank(viewer(), row.role)
        values |= values.pop("user", {})
        if values.pop("username", row.username) != row.username:
            reject("user.username", "A username cannot be changed.")
        _check_role(row, values.get("role", row.role))
        _check_email(row, values.get("email", row.email))
        return values

    def change(self, row: User, values: dict[str, Any]) -> None:
        """Also change the contact of a person who has not joined: the next invitation goes to it."""
        old_role, old_address = row.role, row.email
        super().change(row, values)
        if values.get("role", old_role) != old_role:
            recording.record(row, "role_changed", f"to {AccountRole(values['role']).name.lower()}")
        if values.get("email", old_address) != old_address:
            recording.record(row, "address_changed")
        if "email" in values and not row.is_verified:
            old_contact = (ContactMethod.user == row) & (ContactMethod.value == row.email)
            changed = {"value": values["email"], **ContactMethod.raise_number()}
            ContactMethod.update(changed).where(old_contact).execute()

    def describe(self, row: User) -> dict[str, object]:
        names = ("first_name", "last_name", "time_zone", "role", "email")
        return {name: getattr(row, name) for name in names}

    def get_name(self, row: User) -> str:
        return get_display_name(row)


class Users(Members):
    """The same members in the format of the Go client."""

    noun = "user"
    kind = "account member"
    schema = FlatMemberSchema()


def _check_role(row: User, role: int) -> None:
    if role == row.role:
        return
    if row.role == AccountRole.OWNER:
        reject(
            "role",
            "An account needs an owner. Make another member the owner first (tocsin account hand-over).",
        )
    require_grantable(role)


def require_grantable(role: int) -> None:
    """Raise BadRequest or Forbidden if this viewer cannot give this role to a member."""
    if role == AccountRole.OWNER:
        reject("role", "An account has only one owner.")
    access.require_rank(viewer(), role)


def _check_email(row: User, email: str) -> None:
    if email == row.email:
        return
    if not viewer().is_admin and row.id != viewer().user.id:
        raise Forbidden
    require_unused(lock_row(viewer().account), email, row)


def require_unused(account: Account, email: str, user: User | None = None) -> None:
    """Raise BadRequest if another member has this address. Lock the account first, else two members could
    get the same address."""
    if provisioning.find_member(account, email) not in (None, user):
        reject("email", "A member of this account already has this address.")


def remove_member() -> None:
    """Remove a member from the account, with all references to the member."""
    account = access.access_account(viewer())
    user = get_account_member(account, serialization.read_body()["username"], "username")
    remove(user, read_writing(Mode.DELETE))


def remove(user: User, writing: Writing) -> None:
    """Remove a member from the viewer's account, with all references to the member."""
    account = viewer().account
    author = Author(AuthorKind.USER, get_display_name(viewer().user), user=viewer().user.id)
    with config_transaction():
        # Workers must finish their batches first. Later batches see the account without this member.
        lock_services(Service.team.in_(Team.select(Team.id).where(Team.account == account)))
        locked = begin_change(user, writing, REMOVAL)
        recording.record(_check_removable(locked), "removed")
        offboarding.remove(locked, author, now(), names_user)
    queue.enqueue_timers()


def _check_removable(user: User) -> User:
    if user.removed_at is not None:
        reject("username", f"{user.username} is not a member of this account.")
    if user.id == viewer().user.id:
        reject("username", "You cannot remove yourself.")
    if user.role == AccountRole.OWNER:
        reject(
            "username",
            "An account needs an owner. Make another member the owner first (tocsin account hand-over).",
        )
    access.require_rank(viewer(), user.role)
    managed = TeamMember.select(TeamMember.team).where(
        TeamMember.user == user, TeamMember.role == TeamRole.MANAGER
    )
    if managed.where(TeamMember.team.not_in(access.select_permitted_teams(viewer(), MANAGER))).exists():
        raise Forbidden
    return user


def _describe_removal(user: User) -> dict[str, object]:
    return {"removed": user.removed_at is not None}


MEMBERS = Members()
REMOVAL = Part("account member", "", _describe_removal, MEMBERS.schema.dump, fields=("removed",))
USERS = Users()
REMOVE_MEMBER = RemoveMemberSchema()
