"""Store the addresses that alerts may mail, and the mails to stakeholders.

Processes of the previous version do not use the new tables. They do not send these mails either: the messages
are in a channel of their own.
"""

import peewee

from models.store.base import ReasonField, UtcField


class Account(peewee.Model):
    class Meta:
        table_name = "account"


class User(peewee.Model):
    class Meta:
        table_name = "user"


class Incident(peewee.Model):
    class Meta:
        table_name = "incident"


class Message(peewee.Model):
    class Meta:
        table_name = "message"


class StakeholderAddress(peewee.Model):
    unique_id = peewee.CharField(max_length=36, unique=True)
    creation_date = UtcField()
    account = peewee.ForeignKeyField(Account, on_delete="CASCADE", index=False)
    email = peewee.CharField(max_length=254)
    name = peewee.CharField(max_length=255)

    class Meta:
        table_name = "stakeholder_address"
        indexes = ((("account", "email"), True),)


class StakeholderMail(peewee.Model):
    key = peewee.CharField(max_length=64, unique=True)
    account = peewee.ForeignKeyField(Account, on_delete="CASCADE", index=False)
    incident = peewee.ForeignKeyField(Incident, on_delete="CASCADE")
    user = peewee.ForeignKeyField(User, null=True, on_delete="SET NULL")
    address = peewee.ForeignKeyField(StakeholderAddress, null=True, on_delete="SET NULL")
    name = peewee.CharField(max_length=255)
    subject = peewee.CharField(max_length=200)
    body = peewee.TextField()
    author = peewee.CharField(max_length=255)
    time_zone = peewee.CharField(max_length=64)
    created_at = UtcField()
    message = peewee.ForeignKeyField(Message, null=True, on_delete="CASCADE")
    outcome = ReasonField(null=True)

    class Meta:
        table_name = "stakeholder_mail"


StakeholderMail.add_index(
    StakeholderMail.index(
        StakeholderMail.account,
        StakeholderMail.created_at,
        where=peewee.SQL("message_id IS NOT NULL"),
        name="stakeholder_mail_sent",
    )
)


def up(migrator, db):
    with db.bind_ctx([Account, User, Incident, Message, StakeholderAddress, StakeholderMail]):
        db.create_tables([StakeholderAddress, StakeholderMail])
