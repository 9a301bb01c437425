"""The outcomes of attempts to deliver a message."""

from enum import Enum


class DeliveryOutcome(Enum):
    """The outcome of an attempt to deliver a claimed message."""

    SENT = "sent"
    REFUSED = "refused"  # the relay does not accept this address
    UNUSABLE = "unusable"  # no relay can take this address, or the contact was deleted
    TEMPORARY = "temporary failure"  # the relay answers and may accept the message later
    RELAY_DOWN = "relay down"  # the relay accepts no message at all
    NOT_CONFIGURED = "not configured"  # a setting is missing or not valid
    UNVERIFIED = "unverified"  # the contact is not verified
    OVER_LIMIT = "over limit"  # the user's own address is not verified and got enough messages today
    CANCELLED = "cancelled"  # no notification is left to send
