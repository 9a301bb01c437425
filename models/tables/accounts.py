"""Accounts, users, tokens, the counts of their requests, and rows of the installation itself."""

from uuid import UUID

import peewee

from models.store.fields import JsonField, NumberedObject, NumberedTable, ObjectTable, Table, UtcField


class Account(ObjectTable):
    """A tenant. `account_identifier` is the five characters of the event path (contract 1.5)."""

    account_identifier = peewee.CharField(max_length=5, unique=True)
    name = peewee.CharField(max_length=255)
    last_incident_number = peewee.IntegerField(default=0)


class ConfigVersion(Table):
    """The number of changes of an account's configuration, raised in the transaction of each change.

    The version is not a column of Account because of the order of locks. A lane locks the account (for
    incident numbers) before policies and contacts. A change of configuration locks those before the version.
    """

    account = peewee.ForeignKeyField(Account, unique=True, on_delete="CASCADE")
    version = peewee.IntegerField(default=0)


def bump_version(account_row: int) -> None:
    """Raise the version of an account's configuration. Call it last in the transaction of the change.

    Lanes lock services first, so a transaction that locks this row first and a service second can deadlock
    with a lane. The same holds for the number of a new incident.
    """
    bumped = ConfigVersion.update(version=ConfigVersion.version + 1)
    bumped.where(ConfigVersion.account == account_row).execute()


class CustomRole(NumberedObject):
    """A set of permissions in all teams of the account; web/http/permissions.py has their names."""

    account = peewee.ForeignKeyField(Account, on_delete="CASCADE", index=False)
    name = peewee.CharField(max_length=255)
    description = peewee.TextField(default="")
    permissions = JsonField(default=list)

    class Meta:
        indexes = ((("account", "name"), True),)


class User(NumberedTable):
    """A member of one account. `unique_id` identifies the membership, `username` the person."""

    unique_id = peewee.CharField(max_length=36, unique=True)
    account = peewee.ForeignKeyField(Account, on_delete="CASCADE")
    username = peewee.CharField(max_length=25, unique=True)
    first_name = peewee.CharField(max_length=255, default="")
    last_name = peewee.CharField(max_length=255, default="")
    email = peewee.CharField(max_length=254)
    # The address that was verified last; another `email` is not verified.
    verified_email = peewee.CharField(max_length=254, null=True)
    time_zone = peewee.CharField(max_length=64, default="UTC")
    role = peewee.SmallIntegerField()
    # Used only while `role` is AccountRole.USER (contract 4.9).
    custom_role = peewee.ForeignKeyField(CustomRole, null=True, on_delete="SET NULL")
    is_verified = peewee.BooleanField(default=False)
    joining_date = UtcField()
    # Part of the addresses of calendar feeds: a new key invalidates the old addresses.
    calendar_key = peewee.CharField(max_length=36, null=True)
    # Whether the user, after a notification, also gets a mail that the incident is resolved.
    recovery_mails = peewee.BooleanField(default=True)
    # A removed user stays as a row, because rows about the past refer to it.
    removed_at = UtcField(null=True)

    class Meta:
        indexes = ((("account", "joining_date"), False),)


# People sign in with an address, whose account is not known then.
User.add_index(User.index(peewee.fn.LOWER(User.email), name="user_address"))


class Token(NumberedTable):
    """A token of a user: shown once, stored as SHA-256. It stops working when the user is removed."""

    user = peewee.ForeignKeyField(User, on_delete="CASCADE")
    name = peewee.CharField(max_length=255)
    digest = peewee.CharField(max_length=64, unique=True)
    created_at = UtcField()
    expires_at = UtcField(null=True)
    revoked_at = UtcField(null=True)
    last_used_at = UtcField(null=True)

    @property
    def unique_id(self) -> str:
        """Return the id that the interface shows: half of the digest, from which nobody finds the token."""
        return str(UUID(hex=self.digest[:32], version=4))


class Secret(Table):
    """A value of the installation: the key that signs links, and the last applied TOCSIN_OWNER_EMAIL."""

    name = peewee.CharField(max_length=64, unique=True)
    value = peewee.CharField(max_length=255)


class Liveness(Table):
    """The last sign of life of a process or of a kind of process, for /readyz."""

    process = peewee.CharField(max_length=32, unique=True)
    at = UtcField()
    detail = JsonField(default=dict)


class RateLimit(Table):
    """`recent`: the times of the last accepted requests, in epoch seconds, oldest first.

    `used_at` is the last of them; None: the row is only locked. Retention deletes rows that were not used for
    longer than any limit lasts.
    """

    account = peewee.ForeignKeyField(Account, on_delete="CASCADE", index=False)
    operation = peewee.CharField(max_length=64)
    recent = JsonField(default=list)
    used_at = UtcField(null=True)

    class Meta:
        indexes = ((("account", "operation"), True),)


class FailedAuthentication(Table):
    """How many invalid tokens came from an address in a minute (since 1970). Older rows are deleted."""

    address = peewee.CharField(max_length=64, unique=True)
    minute = peewee.IntegerField()
    count = peewee.IntegerField()


def get_display_name(user: User) -> str:
    """Return the name of a user for display; without a name, the part of the address before the @."""
    return name_person(user.first_name, user.last_name, user.email)


def name_person(first_name: str, last_name: str, email: str) -> str:
    """Return the name of a person as `get_display_name` does, from columns of the user."""
    return f"{first_name} {last_name}".strip() or email.partition("@")[0]
