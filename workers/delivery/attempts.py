"""The outcomes of attempts to deliver a message."""

from enum import Enum


class DeliveryOutcome(Enum):
    """The outcome of an attempt to deliver a claimed message."""

    SENT = "sent"
    REFUSED = "refused"  # the relay does not accept this address
    UNUSABLE = "unusable"  # no relay can take this address, or the contact was deleted
    TEMPORARY = "temporary failure"  # the relay answers and may accept the message later
    RELAY_DOWN = "relay down"  # the relay accepts no message at all
    HOST_PAUSED = "host paused"  # other messages show that the host of the address takes none now
    HOST_BUSY = "host busy"  # enough other messages are being sent to the host of the address
    NOT_CONFIGURED = "not configured"  # a setting is missing or not valid
    UNVERIFIED = "unverified"  # the contact is not verified
    OVER_LIMIT = "over limit"  # the user's own address is not verified and got enough messages today
    BUNDLED = "bundled"  # the contact got enough messages, so the notifications go into one later message
    REPORTED_FAILED = "reported failed"  # the provider accepted the message and did not deliver it
    TOO_EXPENSIVE = "too expensive"  # models/contacts/toll_limits.py does not allow the number, or no more
    CANCELLED = "cancelled"  # no notification is left to send
