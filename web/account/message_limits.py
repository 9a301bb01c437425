"""Limit the messages that people request: invitations, codes, test messages and sign-in links.

Their addresses may belong to strangers. Deleting a contact or a member does not reset a limit.
"""

import hashlib
from datetime import datetime, timedelta

from models.domain.channels import CHANNELS
from models.store.store import db, store
from models.tables.accounts import User
from web.http import rate_limit
from web.http.auth import now
from web.http.rate_limit import Limits

# The address of a contact may belong to a stranger. A stranger must not get many messages.
MIN_INTERVAL = timedelta(seconds=30)
HOUR_S, DAY_S = 3_600.0, 86_400.0

# To one address, of all kinds together.
ADDRESS: Limits = ((5, HOUR_S), (10, DAY_S))
# Codes to one address through one channel, also of different contacts. People add their number for calls and
# for SMS at once.
CODES: Limits = ((1, MIN_INTERVAL.total_seconds()),)
# Requested by one person, and in one account: codes and test messages.
PERSON: Limits = ((20, HOUR_S), (50, DAY_S))
ACCOUNT: Limits = ((100, HOUR_S), (300, DAY_S))
# The same for codes and test messages that cost money, as SMS and phone calls do.
TOLL_ADDRESS: Limits = ((3, HOUR_S), (5, DAY_S))
TOLL_PERSON: Limits = ((5, HOUR_S), (10, DAY_S))
TOLL_ACCOUNT: Limits = ((20, HOUR_S), (50, DAY_S))
# Whole departments are invited in one hour.
PERSON_INVITATIONS: Limits = ((200, HOUR_S),)
ACCOUNT_INVITATIONS: Limits = ((500, DAY_S),)


def count_message(requester: User, channel: int, address: str) -> None:
    """Count a test message to this address. Raise Throttled if there are too many."""
    _count(requester, address, "messages", PERSON, ACCOUNT, *_list_toll_limits(requester, channel, address))


def count_code(requester: User, channel: int, address: str) -> None:
    """Count a code to this address. Raise Throttled if there are too many."""
    toll = _list_toll_limits(requester, channel, address)
    code = (CODES, f"code {channel} {_hash(address)}")
    _count(requester, address, "messages", PERSON, ACCOUNT, code, *toll)


def _list_toll_limits(requester: User, channel: int, address: str) -> list[tuple[Limits, str]]:
    """Return the limits for messages that cost money, with the names under which they are counted."""
    if channel not in CHANNELS or not CHANNELS[channel].toll_units:
        return []
    return [
        (TOLL_ADDRESS, f"toll address {_hash(address)}"),
        (TOLL_PERSON, f"toll messages by {requester.id}"),
        (TOLL_ACCOUNT, "toll messages"),
    ]


def count_invitation(requester: User, address: str) -> None:
    """Count an invitation to this address. Raise Throttled if there are too many."""
    _count(requester, address, "invitations", PERSON_INVITATIONS, ACCOUNT_INVITATIONS)


def count_sign_in(user: User, at: datetime) -> None:
    """Count a mail with a sign-in link to this member. Raise Throttled if there are too many."""
    with store().write_transaction(), db.atomic():
        rate_limit.enforce(ADDRESS, user.account, f"address {_hash(user.email)}", at)


def _count(
    requester: User, address: str, kind: str, person: Limits, account: Limits, *more: tuple[Limits, str]
) -> None:
    # A refused message counts nowhere, also if the caller's transaction goes on without it.
    with store().write_transaction(), db.atomic():
        for limits, operation in (
            *more,
            (ADDRESS, f"address {_hash(address)}"),
            (person, f"{kind} by {requester.id}"),
            (account, kind),
        ):
            rate_limit.enforce(limits, requester.account, operation, now())


def _hash(address: str) -> str:
    return hashlib.sha256(address.strip().lower().encode()).hexdigest()[:32]
