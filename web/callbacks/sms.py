"""Replies to SMS, and reports about them.

A reply needs the number of a verified contact and the code of a message to it: the number of a sender can be
forged, a code is known to the reader of the message. Only to acknowledge the one incident that is open, a
word is enough: who is woken up types no code, and the acknowledgement is in the timeline.
"""

import re
from collections.abc import Collection
from datetime import datetime, timedelta

from flask import Response

from models.domain.enums import ContactType, ProviderState
from models.domain.reasons import make_reason
from models.links import reply_codes
from models.tables.users import ContactMethod
from pipeline.messages.content import CHOICES
from web.callbacks.answer import find_contacts
from web.callbacks.received import is_new, was_handled
from web.callbacks.twilio import build_reply, read_callback, record_once
from web.callbacks.whole_message import answer_message
from web.http.auth import now

_REPLY = re.compile(rf"\s*([12])\W*([A-Za-z0-9]{{{reply_codes.LENGTH}}})\W*")
_WITHOUT_CODE = re.compile(r"\W*(1|ok|okay|ack|acknowledge)\W*", re.IGNORECASE)
HELP_TEXT = "Reply with 1 and the code of a message to acknowledge, with 2 and the code to resolve."
NOTHING_OPEN = "No incident of your SMS is open now."
MANY_OPEN = "Several incidents are open. Reply with 1 and the code of a message, or use the link in it."
NO_MESSAGE = "No message has this code now. Use the newest message, or the link in it."

# The provider itself obeys these words and replies to them: a second reply would only cost money. After STOP,
# it sends nothing to the number until it gets START.
STOP_WORDS = {"STOP", "STOPALL", "UNSUBSCRIBE", "CANCEL", "END", "QUIT", "REVOKE", "OPTOUT"}
OTHER_WORDS = {"START", "UNSTOP", "YES", "HELP", "INFO"}

# The signature of a reply contains no time, so somebody who has recorded the request can send it again at any
# time. Each reply of a known number acts once in this time. A code ends after a day, but STOP does not.
REPLIES_KEPT = timedelta(days=365)

# What the final states of an SMS mean. "sent" says that the network of the recipient took it.
STATES = {
    "sent": ProviderState.SENT,
    "delivered": ProviderState.DELIVERED,
    "read": ProviderState.DELIVERED,
    "undelivered": ProviderState.FAILED,
    "failed": ProviderState.FAILED,
}

# The error codes of reports that say more than their number.
DELIVERY_ERRORS = {
    "30003": "the phone cannot be reached",
    "30004": "the recipient blocks the message",
    "30005": "the number is not known",
    "30006": "the number is a landline, or its network cannot be reached",
    "30007": "the network filtered the message",
    "30034": "the sender is not registered for SMS in this country",
}


def reply() -> Response:
    """Acknowledge or resolve the incidents of the SMS whose code the sender replies with."""
    callback, at = read_callback(), now()
    sender, text = callback.get("From"), callback.get("Body").strip()
    contacts = find_contacts(ContactType.SMS, sender)
    name = f"reply:{callback.get('MessageSid')}"
    # Strangers change nothing and get no reply.
    if not contacts or was_handled(callback.provider, name):
        return build_reply()
    answer = _handle(contacts, sender, text, callback.get("OptOutType"), at)
    # Afterwards, so that the provider can send a reply again that an error of the database stopped.
    is_new(callback.provider, name, at, REPLIES_KEPT)
    return build_reply(answer)


def _handle(contacts: Collection[ContactMethod], sender: str, text: str, opt_out: str, at: datetime) -> str:
    """Do what a reply says, and return the text for its sender; empty: none."""
    if opt_out == "STOP" or text.upper() in STOP_WORDS:
        _refuse(contacts)
        return ""
    if text.upper() in OTHER_WORDS or reply_codes.has_too_many_wrong(sender, at):
        return ""
    return _act(contacts, sender, text, at)


def _act(contacts: Collection[ContactMethod], sender: str, text: str, at: datetime) -> str:
    """Do what a reply says, and return the text for its sender. Count a reply without a valid code."""
    if _WITHOUT_CODE.fullmatch(text):
        return _acknowledge_only(contacts, at)
    found = _REPLY.fullmatch(text)
    message = reply_codes.find_message(contacts, found[2], at) if found else None
    if found is None or message is None or message.contact is None:
        reply_codes.record_wrong(sender, at)
        return HELP_TEXT if found is None else NO_MESSAGE
    return answer_message(message.contact, message, CHOICES[found[1]], at)


def _acknowledge_only(contacts: Collection[ContactMethod], at: datetime) -> str:
    """Acknowledge the incident of the SMS to these contacts if it is the only open one."""
    still_open = reply_codes.list_open(contacts, at)
    if len(still_open) != 1:
        return MANY_OPEN if still_open else NOTHING_OPEN
    ((_, message),) = still_open
    contact = message.contact
    return answer_message(contact, message, CHOICES["1"], at) if contact is not None else NOTHING_OPEN


def _refuse(contacts: Collection[ContactMethod]) -> None:
    """Send these contacts nothing until they are verified again. Their owners get e-mails instead."""
    rows = [contact.id for contact in contacts]
    ContactMethod.update(verified_value=None).where(ContactMethod.id.in_(rows)).execute()


def report() -> Response:
    """Record what became of an SMS."""
    callback, at = read_callback(), now()
    sms, status, code = callback.get("MessageSid"), callback.get("MessageStatus"), callback.get("ErrorCode")
    if status in STATES:
        why = DELIVERY_ERRORS.get(code, status)
        reason = make_reason("provider_error", provider=callback.provider, why=why, code=code[:10] or status)
        record_once(callback.provider, sms, status, STATES[status], reason, at)
    return build_reply()
