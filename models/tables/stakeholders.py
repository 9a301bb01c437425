"""Stakeholders: who gets mails about an incident without being on call (contract section 4.11)."""

import peewee

from models.store.fields import NumberedObject, ReasonField, Table, UtcField
from models.tables.accounts import Account, User
from models.tables.incidents import Incident
from models.tables.notifications import Message


class StakeholderAddress(NumberedObject):
    """An address outside the account that alerts may mail. `email` is in lower case, `name` is shown."""

    account = peewee.ForeignKeyField(Account, on_delete="CASCADE", index=False)
    email = peewee.CharField(max_length=254)
    name = peewee.CharField(max_length=255)

    class Meta:
        indexes = ((("account", "email"), True),)


class StakeholderMail(Table):
    """One mail to one stakeholder of an incident, or why there is none.

    - `key`: the hash of incident, text and stakeholder, so that a repeated alert mails nobody twice.
    - `user`: the member who gets it; `address`: the address of the list. Both None: nobody gets it, or the
      address was removed from the list.
    - `name`: how the stakeholder is shown, without the address.
    - `message`: the outgoing message; None if there is none, and `outcome` then says why.
    """

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


# For the limits of an account and of an address.
StakeholderMail.declare_index(
    "stakeholder_mail_sent", "account", "created_at", where="message_id IS NOT NULL"
)
