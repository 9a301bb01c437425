"""The secret with which webhooks to a contact are signed (under /api/tocsin/)."""

from models.domain.enums import OtherContactType
from models.keys import webhook_secrets
from models.tables.users import ContactMethod, ContactSecret
from web.account.notification_preferences import CONTACTS
from web.http.errors import reject
from web.http.fields import Schema, Text, explain
from web.http.resource import change_transaction
from web.http.writing import Mode, NumberedAnswer, Part, begin_change, read_writing


class WebhookSecretSchema(Schema):
    secret = Text(
        dump_only=True,
        metadata=explain("The secret, for a library of Standard Webhooks. Only this answer shows it."),
    )


WEBHOOK_SECRET = WebhookSecretSchema()


def renew(**ids: str) -> dict[str, object]:
    """Create the secret of a webhook contact. The secret before it is no longer used."""
    user, contact = CONTACTS.find_row(**ids)
    CONTACTS.require_write(user)
    if contact.contact_type != OtherContactType.WEBHOOK:
        reject("contact", "Only contacts of the type webhook have a secret.")
    with change_transaction():
        found = begin_change(contact, read_writing(Mode.PATCH), PART)
        return NumberedAnswer(found.number, {"secret": webhook_secrets.replace_contact_secret(contact)})


def _describe(contact: ContactMethod) -> dict[str, object]:
    secret = ContactSecret.select(ContactSecret.secret).where(ContactSecret.contact == contact.id).scalar()
    return {"secret": secret}


PART = Part("contact method", "", _describe, CONTACTS.schema.dump, secrets=("secret",), fields=("secret",))
