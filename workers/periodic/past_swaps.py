"""End requests to swap shifts whose first shift has begun, and notify the people who waited for an answer."""

from datetime import datetime

from models.contacts.messages import create_message
from models.domain.channels import USER_EMAIL_CHANNEL
from models.domain.enums import MessageKind, SwapState
from models.store.store import connection, store
from models.tables.accounts import get_display_name
from models.tables.schedules import ShiftSwap

# Requests that one run ends; the next run ends others.
MAX_ENDED = 100
EVERY_S = 60


def end_past(now: datetime | None = None) -> int:
    """End the requests that have passed. Return how many. The person who asked gets a mail.

    If the other person has agreed, that person gets one too.
    """
    with connection():
        at = now or store().now()
        has_begun = (ShiftSwap.asked_start <= at) | (ShiftSwap.returned_start <= at)
        opened = ShiftSwap.state.in_((SwapState.ASKED, SwapState.AGREED))
        found = list(ShiftSwap.select().where(opened, has_begun).order_by(ShiftSwap.id).limit(MAX_ENDED))
        return sum(_end(swap, at) for swap in found)


def _end(swap: ShiftSwap, at: datetime) -> bool:
    """End a request, unless somebody has just answered it."""
    with store().write_transaction():
        same = (ShiftSwap.id == swap.id) & (ShiftSwap.state == swap.state)
        if not ShiftSwap.update(state=SwapState.PASSED).where(same).execute():
            return False
        pairs = [(swap.asker, swap.partner), (swap.partner, swap.asker)]
        for to, other in pairs if swap.state == SwapState.AGREED else pairs[:1]:
            create_message(
                to, get_display_name(other), at, channel=USER_EMAIL_CHANNEL, kind=MessageKind.SWAP_PASSED,
                group_key=swap.unique_id,
            )  # fmt: skip
    return True
