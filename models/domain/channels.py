"""The channels: one line for each contact type to which Tocsin can send messages.

The name of a channel is also the name of its file in workers/delivery/channels/, of its queue and of its
label in metrics. Settings that a channel needs have the name of the channel in `needed_by`
(runtime/settings.py). A channel with buttons also needs a line in web/routes.py, and a module of its name in
the package web/callbacks.
"""

import re
from collections import ChainMap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from models.domain.enums import ContactType, OtherContactType, Urgency, Verification
from models.domain.user_urls import URL_PATTERN, find_problem


@dataclass(frozen=True, slots=True)
class AddressForm:
    """The form of a channel's addresses: in words for an error, and as a pattern of the whole address.

    `check` returns a sentence about what else is wrong with an address; empty if nothing is.
    """

    words: str
    pattern: re.Pattern[str]
    limit: int = 320  # the length of the column ContactMethod.value
    check: Callable[[str], str] = lambda address: ""


def _find_problem_of_topic(address: str) -> str:
    """Return a sentence about why nothing can be sent to this topic; empty if it can.

    The name of a topic alone is on the server of the settings.
    """
    return find_problem(address) if "/" in address else ""


ANY_TEXT = AddressForm("an address on one line", re.compile(r"[^\x00-\x1f\x7f]+"))
# "localhost" and other short domains are allowed.
EMAIL_ADDRESS = AddressForm(
    "an e-mail address",
    re.compile(r"[^@\s\x00-\x1f\x7f,;:<>()\[\]\\\"]+@[^@\s\x00-\x1f\x7f,;:<>()\[\]\\\"]+"),
    254,
)
# The URL of an incoming webhook, which each person makes in a chat.
USER_URL = AddressForm("a URL that begins with https:// or http://", URL_PATTERN, check=find_problem)

PHONE_NUMBER = AddressForm(
    "a phone number with + and the country code, for example +46701234567",
    re.compile(r"\+[1-9][0-9]{6,14}"),
    16,
)
NTFY_TOPIC = AddressForm(
    "the URL of a topic, for example https://ntfy.sh/my-topic, or the name of a topic",
    re.compile(r"(https?://[^\s\x00-\x1f\x7f@?#]+/)?[-_A-Za-z0-9]{1,64}"),
    check=_find_problem_of_topic,
)
BROWSER = AddressForm(
    "a browser: add one with the button on the page of an incident",
    re.compile(r"[^\s\x00-\x1f\x7f/]+/[0-9a-f]{32}"),
)

# Delays of notification rules in minutes, by urgency: the defaults of the contract (section 3.2). A phone
# call is for high urgency only.
AT_ONCE: Mapping[Urgency, int] = {Urgency.HIGH: 0, Urgency.LOW: 0}
SMS_DELAYS: Mapping[Urgency, int] = {Urgency.HIGH: 5, Urgency.LOW: 5}
PHONE_DELAYS: Mapping[Urgency, int] = {Urgency.HIGH: 10}
# For ChannelSpec.toll_units.
SMS_UNITS, PHONE_UNITS = 1, 3
# Slack's id of a person; those of Enterprise Grid begin with W.
SLACK_USER = AddressForm("the id of a Slack user (U012AB3)", re.compile(r"[UW][A-Z0-9]{2,30}"), 32)
# Groups and channels have negative numbers: only a private chat is one person.
TELEGRAM_CHAT = AddressForm("the number of a private Telegram chat", re.compile(r"[1-9][0-9]{0,18}"), 19)


@dataclass(frozen=True, slots=True)
class ChannelSpec:
    """A channel. `title` is its name in sentences. `buttons`: its messages have buttons that call back.

    - `is_chat`: a repeated message stands below the first one. Nothing tells the two apart.
    - `verification`: how a contact is verified. Only one that is verified by a code has an address from the
      beginning, in the form `address`.
    - `rule_delays`: the notification rules that a contact gets when it is verified for the first time: their
      delays in minutes, by urgency.
    - `toll_units`: what a message costs, in units of the daily limit of an account; 0: nothing.
    - `can_change`: a sent message is changed when its incident is acknowledged, resolved or triggered again.
      Its connection needs `change` (workers/delivery/transport/channel.py).
    """

    contact_type: int
    name: str
    title: str
    buttons: bool = False
    can_change: bool = False
    is_chat: bool = False
    address: AddressForm = ANY_TEXT
    verification: Verification = Verification.CODE
    rule_delays: Mapping[Urgency, int] = field(default_factory=lambda: AT_ONCE)
    toll_units: int = 0


# Contact types that the contract does not define have numbers from 101. Notification rules for contact types
# without a channel count as unusable (invariant 9, design, section 2).
CHANNELS: dict[int, ChannelSpec] = {
    int(spec.contact_type): spec
    for spec in (
        ChannelSpec(ContactType.EMAIL, "email", "e-mail", address=EMAIL_ADDRESS),
        ChannelSpec(
            ContactType.SMS, "sms", "SMS", buttons=True, address=PHONE_NUMBER,
            rule_delays=SMS_DELAYS, toll_units=SMS_UNITS,
        ),
        ChannelSpec(
            ContactType.PHONE, "phone", "phone call", buttons=True, address=PHONE_NUMBER,
            rule_delays=PHONE_DELAYS, toll_units=PHONE_UNITS,
        ),
        ChannelSpec(
            ContactType.SLACK, "slack", "Slack", buttons=True, can_change=True, is_chat=True,
            address=SLACK_USER, verification=Verification.LINK,
        ),
        ChannelSpec(ContactType.MS_TEAMS, "teams", "Microsoft Teams", is_chat=True, address=USER_URL),
        ChannelSpec(ContactType.GOOGLE_CHAT, "google_chat", "Google Chat", is_chat=True, address=USER_URL),
        ChannelSpec(
            OtherContactType.TELEGRAM, "telegram", "Telegram", buttons=True, can_change=True, is_chat=True,
            address=TELEGRAM_CHAT, verification=Verification.LINK,
        ),
        ChannelSpec(OtherContactType.MATTERMOST, "mattermost", "Mattermost", is_chat=True, address=USER_URL),
        ChannelSpec(OtherContactType.DISCORD, "discord", "Discord", is_chat=True, address=USER_URL),
        ChannelSpec(OtherContactType.WEBHOOK, "webhook", "webhook", address=USER_URL),
        ChannelSpec(OtherContactType.NTFY, "ntfy", "ntfy", buttons=True, address=NTFY_TOPIC),
        ChannelSpec(
            OtherContactType.WEB_PUSH, "web_push", "web push", buttons=True, address=BROWSER,
            verification=Verification.BROWSER,
        ),
    )
}  # fmt: skip

# The channels whose sent messages can be changed.
CHANGING_CHANNELS = frozenset(number for number, spec in CHANNELS.items() if spec.can_change)

# Mails to stakeholders have a channel of their own, so that they never delay a message to a person on call.
# No contact can name it.
STAKEHOLDER_CHANNEL = 201
STAKEHOLDER_SPEC = ChannelSpec(STAKEHOLDER_CHANNEL, "stakeholder_mail", "e-mail to stakeholders")

# The number by which deliveries of outbound integrations are enqueued (workers/outbound/). It has no messages
# to people, so it is in no table of channels.
OUTBOUND_CHANNEL = 202

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

# Nobody is called because an incident is resolved.
WITHOUT_RECOVERY = frozenset({ContactType.PHONE})


def get_channel_name(contact_type: int) -> str:
    """Return the name of a channel. Stored messages can have a contact type whose channel was removed."""
    if contact_type == OUTBOUND_CHANNEL:
        return "outbound"
    spec = DELIVERY_CHANNELS.get(contact_type)
    return spec.name if spec is not None else f"removed_{contact_type}"
