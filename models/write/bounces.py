"""Record that a mail came back: it failed, and a bad address is not used until it is verified again."""

from datetime import datetime

from models.contacts.contact_codes import is_own_address
from models.contacts.messages import create_message
from models.domain.channels import USER_EMAIL_CHANNEL
from models.domain.enums import MessageKind, ProviderState
from models.domain.reasons import make_reason
from models.store.store import store
from models.tables.accounts import User
from models.tables.notifications import Message
from models.tables.users import ContactMethod
from models.write.delivery_reports import record_report

# The name of the provider in the attempts of mails that can come back.
PROVIDER = "mail"
# Statuses (RFC 3463) that say that the address itself cannot be used.
BAD_ADDRESS = ("5.1.", "5.2.1")


def record_bounce(message_id: str, status: str, at: datetime) -> None:
    """Record that a mail server sent a message back, with this status such as 5.1.1.

    Its notifications are then sent in another way. If the address is bad, it counts as not verified: a
    contact gets only its code, and its person gets a mail at the own address.
    """
    reason = make_reason("bounced", status=status)
    if not record_report(PROVIDER, message_id, ProviderState.FAILED, at, reason):
        return
    if status.startswith(BAD_ADDRESS):
        with store().write_transaction():
            _mark_address(message_id, at)


def _mark_address(message_id: str, at: datetime) -> None:
    message = Message.select().where(Message.message_id == message_id).first()
    if message is None or message.kind == MessageKind.STAKEHOLDER:
        return
    user, contact = message.user, message.contact
    if contact is None or is_own_address(contact.contact_type, contact.value, user.email):
        User.update(verified_email=None).where(User.id == user.id).execute()
        if contact is None:
            return
    verified = (ContactMethod.id == contact.id) & ContactMethod.verified_value.is_null(False)
    is_changed = ContactMethod.update(verified_value=None).where(verified).execute()
    if is_changed and not is_own_address(contact.contact_type, contact.value, user.email):
        create_message(user, contact.name, at, channel=USER_EMAIL_CHANNEL, kind=MessageKind.BOUNCED)
