"""The channels: one line for each contact type to which Tocsin can send messages.

The name of a channel is also the name of its file in workers/delivery/channels/, of its queue and of its
label in metrics. Settings that a channel needs have the name of the channel in `needed_by`
(runtime/settings.py). A channel with buttons also needs a line in web/routes.py, and a module of its name in
the package web/callbacks. That package does not exist yet.
"""

import re
from collections import ChainMap
from dataclasses import dataclass

from models.domain.enums import ContactType


@dataclass(frozen=True, slots=True)
class AddressForm:
    """The form of a channel's addresses: in words for an error, and as a pattern of the whole address."""

    words: str
    pattern: re.Pattern[str]
    limit: int = 320  # the length of the column ContactMethod.value


ANY_TEXT = AddressForm("an address on one line", re.compile(r"[^\x00-\x1f\x7f]+"))
# "localhost" and other short domains are allowed.
EMAIL_ADDRESS = AddressForm(
    "an e-mail address",
    re.compile(r"[^@\s\x00-\x1f\x7f,;:<>()\[\]\\\"]+@[^@\s\x00-\x1f\x7f,;:<>()\[\]\\\"]+"),
    254,
)


@dataclass(frozen=True, slots=True)
class ChannelSpec:
    """A channel. `title` is its name in sentences. `buttons`: its messages have buttons that call back."""

    contact_type: int
    name: str
    title: str
    buttons: bool = False
    address: AddressForm = ANY_TEXT


# Contact types that the contract does not define have numbers from 101. Notification rules for contact types
# without a channel count as unusable (invariant 9, design, section 2).
CHANNELS: dict[int, ChannelSpec] = {
    int(spec.contact_type): spec
    for spec in (ChannelSpec(ContactType.EMAIL, "email", "e-mail", address=EMAIL_ADDRESS),)
}

# Mails to stakeholders have a channel of their own, so that they never delay a message to a person on call.
# No contact can name it.
STAKEHOLDER_CHANNEL = 201
STAKEHOLDER_SPEC = ChannelSpec(STAKEHOLDER_CHANNEL, "stakeholder_mail", "e-mail to stakeholders")

# All channels that have messages: those of contacts, and that of stakeholders.
DELIVERY_CHANNELS: ChainMap[int, ChannelSpec] = ChainMap(CHANNELS, {STAKEHOLDER_CHANNEL: STAKEHOLDER_SPEC})

# The names of the contact types that a contact can have: those of the contract, and those of the channels.
CONTACT_TYPES: dict[int, str] = {
    ContactType.EMAIL: "e-mail",
    ContactType.SMS: "SMS",
    ContactType.PHONE: "phone call",
    ContactType.SLACK: "Slack",
    ContactType.MS_TEAMS: "Microsoft Teams",
    ContactType.GOOGLE_CHAT: "Google Chat",
    **{number: spec.title for number, spec in CHANNELS.items()},
}

# The channel of each user's own e-mail address: for invitations, and if no contact can be used.
USER_EMAIL_CHANNEL = ContactType.EMAIL


def get_channel_name(contact_type: int) -> str:
    """Return the name of a channel. Stored messages can have a contact type whose channel was removed."""
    spec = DELIVERY_CHANNELS.get(contact_type)
    return spec.name if spec is not None else f"removed_{contact_type}"
