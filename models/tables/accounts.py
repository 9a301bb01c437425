"""Accounts, the tokens that speak for their members, and what the installation keeps for itself."""

import peewee

from models.store.base import JsonField, Table, UtcField


class Account(Table):
    """A tenant. `account_identifier` is the five characters of the event path (contract 1.5)."""

    unique_id = peewee.CharField(max_length=36, unique=True)
    account_identifier = peewee.CharField(max_length=5, unique=True)
    name = peewee.CharField(max_length=255)
    creation_date = UtcField()
    last_incident_number = peewee.IntegerField(default=0)


class ConfigVersion(Table):
    """How often an account's configuration has changed: raised in the transaction of each write of it.

    Not a column of the account: a lane locks that row for incident numbers before it refers to
    policies and contacts, a write of configuration has locked those before it raises the version.
    """

    account = peewee.ForeignKeyField(Account, unique=True, on_delete="CASCADE")
    version = peewee.IntegerField(default=0)


def bump_version(account_row: int) -> None:
    """Say that an account's configuration changed; last in the transaction that changes it.

    As the number of a new incident is: who locks this row first and a service's row second waits for a
    lane that does it the other way round, for ever.
    """
    bumped = ConfigVersion.update(version=ConfigVersion.version + 1)
    bumped.where(ConfigVersion.account == account_row).execute()


class CustomRole(Table):
    """What a user may do in all teams of the account, by the names of web/http/permissions.py."""

    unique_id = peewee.CharField(max_length=36, unique=True)
    account = peewee.ForeignKeyField(Account, on_delete="CASCADE", index=False)
    name = peewee.CharField(max_length=255)
    description = peewee.TextField(default="")
    permissions = JsonField(default=list)
    creation_date = UtcField()

    class Meta:
        indexes = ((("account", "name"), True),)


class User(Table):
    """A member of one account. `unique_id` is the membership's id, `username` the person's."""

    unique_id = peewee.CharField(max_length=36, unique=True)
    account = peewee.ForeignKeyField(Account, on_delete="CASCADE")
    username = peewee.CharField(max_length=25, unique=True)
    first_name = peewee.CharField(max_length=255, default="")
    last_name = peewee.CharField(max_length=255, default="")
    email = peewee.CharField(max_length=254)
    time_zone = peewee.CharField(max_length=64, default="UTC")
    role = peewee.SmallIntegerField()
    # Counts only while `role` is that of a plain user (contract 4.9).
    custom_role = peewee.ForeignKeyField(CustomRole, null=True, on_delete="SET NULL")
    is_verified = peewee.BooleanField(default=False)
    joining_date = UtcField()
    # Part of the addresses of their calendars: a new one ends the old addresses.
    calendar_key = peewee.CharField(max_length=36, null=True)
    # Rows about the past keep pointing here, so a removed member stays as a row.
    removed_at = UtcField(null=True)

    class Meta:
        indexes = ((("account", "joining_date"), False),)


class Token(Table):
    """Shown once, kept as a SHA-256; it acts as its user and dies with the user's removal."""

    user = peewee.ForeignKeyField(User, on_delete="CASCADE")
    name = peewee.CharField(max_length=255)
    digest = peewee.CharField(max_length=64, unique=True)
    created_at = UtcField()
    expires_at = UtcField(null=True)
    revoked_at = UtcField(null=True)
    last_used_at = UtcField(null=True)


class Secret(Table):
    """A key of the installation: the one that signs links, and what later ones need."""

    name = peewee.CharField(max_length=64, unique=True)
    value = peewee.CharField(max_length=255)


class Liveness(Table):
    """When a process kind was last seen alive, for /readyz."""

    process = peewee.CharField(max_length=32, unique=True)
    at = UtcField()
    detail = JsonField(default=dict)


def get_display_name(user: User) -> str:
    """A person's name as others read it; somebody without one goes by the part before the @."""
    return f"{user.first_name} {user.last_name}".strip() or user.email.partition("@")[0]
