"""How many messages a contact gets in which time; what exceeds a limit goes into one bundle.

A person can act on a few messages in a short time. More only delay the important one, and cost money or the
trust of the provider. A bundle names how many incidents are in it, with a link to their list. Nothing is
dropped: each notification is in exactly one message.
"""

from datetime import timedelta
from typing import NamedTuple

from models.domain.enums import ContactType, OtherContactType


class MessageLimit(NamedTuple):
    """At most `most` messages to one contact in each `window`, and a bundle."""

    most: int
    window: timedelta


_MINUTE = timedelta(minutes=1)
# A phone that shows notifications: a person reads two a minute.
_PUSH = MessageLimit(10, 5 * _MINUTE)

MESSAGE_LIMITS: dict[int, MessageLimit] = {
    # People sort mails by subject, and relays accept many. TOCSIN_MAIL_LIMIT changes the number.
    ContactType.EMAIL: MessageLimit(60, _MINUTE),
    # Each costs money, and providers slow down a number that gets more.
    ContactType.SMS: MessageLimit(6, 10 * _MINUTE),
    # A call takes a minute. A person who is called all the time cannot work on the incident.
    ContactType.PHONE: MessageLimit(3, 10 * _MINUTE),
    ContactType.SLACK: _PUSH,
    ContactType.MS_TEAMS: _PUSH,
    ContactType.GOOGLE_CHAT: _PUSH,
    OtherContactType.TELEGRAM: _PUSH,
    OtherContactType.NTFY: _PUSH,
    OtherContactType.WEB_PUSH: _PUSH,
    OtherContactType.MATTERMOST: _PUSH,
    OtherContactType.DISCORD: _PUSH,
    # A program reads it.
    OtherContactType.WEBHOOK: MessageLimit(300, 5 * _MINUTE),
}
# For a channel that is not in the table.
DEFAULT_LIMIT = _PUSH

# The user's own e-mail address while it is not verified: it may belong to a stranger. It still gets messages,
# because the person may be on call.
UNVERIFIED_LIMIT = MessageLimit(10, timedelta(days=1))


def get_limit(channel: int) -> MessageLimit:
    return MESSAGE_LIMITS.get(channel, DEFAULT_LIMIT)
