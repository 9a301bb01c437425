"""Store how people sign in to the pages, and the audit list.

Processes of the previous version may still run. They have no pages to sign in to and ignore the tables.
"""

import peewee

from models.store.base import JsonField, UtcField


class Account(peewee.Model):
    class Meta:
        table_name = "account"


class User(peewee.Model):
    class Meta:
        table_name = "user"


class Session(peewee.Model):
    unique_id = peewee.CharField(max_length=36, unique=True)
    creation_date = UtcField()

    user = peewee.ForeignKeyField(User, on_delete="CASCADE")
    digest = peewee.CharField(max_length=64, unique=True)
    last_seen_at = UtcField()
    ends_at = UtcField()
    method = peewee.CharField(max_length=16)
    user_agent = peewee.CharField(max_length=120, default="")
    rights = peewee.CharField(max_length=40)

    class Meta:
        table_name = "session"


class Password(peewee.Model):
    user = peewee.ForeignKeyField(User, unique=True, on_delete="CASCADE")
    hash = peewee.CharField(max_length=255)
    changed_at = UtcField()

    class Meta:
        table_name = "password"


class SignInLink(peewee.Model):
    unique_id = peewee.CharField(max_length=36, unique=True)
    creation_date = UtcField()

    user = peewee.ForeignKeyField(User, on_delete="CASCADE")
    address = peewee.CharField(max_length=64)
    ends_at = UtcField()

    class Meta:
        table_name = "sign_in_link"


class Passkey(peewee.Model):
    unique_id = peewee.CharField(max_length=36, unique=True)
    creation_date = UtcField()

    user = peewee.ForeignKeyField(User, on_delete="CASCADE")
    name = peewee.CharField(max_length=120)
    credential_id = peewee.CharField(max_length=1_400, unique=True)
    public_key = peewee.TextField()
    sign_count = peewee.BigIntegerField(default=0)
    last_used_at = UtcField(null=True)

    class Meta:
        table_name = "passkey"


class Identity(peewee.Model):
    user = peewee.ForeignKeyField(User, on_delete="CASCADE")
    issuer = peewee.CharField(max_length=255)
    subject = peewee.CharField(max_length=255)
    created_at = UtcField()

    class Meta:
        indexes = ((("issuer", "subject"), True),)
        table_name = "identity"


class SignInStep(peewee.Model):
    digest = peewee.CharField(max_length=64, unique=True)
    kind = peewee.CharField(max_length=16)
    values = JsonField(default=dict)
    ends_at = UtcField()

    class Meta:
        table_name = "sign_in_step"


class SignInRate(peewee.Model):
    key = peewee.CharField(max_length=64, unique=True)
    recent = JsonField(default=list)
    used_at = UtcField()

    class Meta:
        table_name = "sign_in_rate"


class AuditEntry(peewee.Model):
    account = peewee.ForeignKeyField(Account, on_delete="CASCADE", index=False)
    at = UtcField()
    action = peewee.CharField(max_length=32)
    user = peewee.ForeignKeyField(User, null=True, on_delete="CASCADE")
    actor = peewee.CharField(max_length=255)
    client = peewee.CharField(max_length=64, default="")
    detail = peewee.CharField(max_length=255, default="")

    class Meta:
        indexes = ((("account", "at"), False),)
        table_name = "audit_entry"


def up(migrator, db):
    tables = [Session, Password, SignInLink, Passkey, Identity, SignInStep, SignInRate, AuditEntry]
    with db.bind_ctx([Account, User, *tables]):
        db.create_tables(tables)
    db.execute_sql('CREATE INDEX "user_address" ON "user" (LOWER("email"))')
