"""The secrets with which webhooks are signed. Each is shown once, when it is created."""

import secrets
from base64 import b64encode

import peewee

from models.store.store import store
from models.tables.notifications import Message
from models.tables.users import ContactMethod, ContactSecret

# The form of a secret in the Standard Webhooks specification.
PREFIX = "whsec_"


def create_secret() -> str:
    return PREFIX + b64encode(secrets.token_bytes(32)).decode()


def replace_contact_secret(contact: ContactMethod) -> str:
    """Store a new secret of a contact, in place of the one before. Needs a write transaction."""
    secret, created_at = create_secret(), store().now()
    ContactSecret.insert(contact=contact, secret=secret, created_at=created_at).on_conflict(
        conflict_target=[ContactSecret.contact],
        update={ContactSecret.secret: secret, ContactSecret.created_at: created_at},
    ).execute()
    return secret


def find_contact_secret(message_id: str) -> str:
    """Return the secret of the contact to which a message goes; empty if it has none."""
    query = ContactSecret.select(ContactSecret.secret).join(
        Message, peewee.JOIN.INNER, on=(Message.contact == ContactSecret.contact)
    )
    return str(query.where(Message.message_id == message_id).scalar() or "")
