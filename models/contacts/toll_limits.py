"""Limit what an account can spend on messages that cost money: SMS and phone calls.

A stranger with an account must not make this installation call expensive numbers. The operator names the
beginnings of numbers and the units per day in the settings; otherwise, only the countries of the numbers that
send are allowed. ChannelSpec.toll_units says what a message costs.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

import peewee

from models.domain.channels import CHANNELS
from models.domain.enums import AttemptOutcome, MessageStatus
from models.domain.phone_numbers import find_country, is_expensive
from models.domain.reasons import Reason, make_reason
from models.tables.notifications import Attempt, Message
from runtime.settings import Settings
from runtime.twilio_accounts import list_accounts

DAY = timedelta(days=1)
# Codes and test messages may use this part of the units, so that they leave some for incidents.
REQUESTED_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class TollLimits:
    """`prefixes`: the allowed beginnings of phone numbers; empty: none. `daily_units` 0: no limit."""

    prefixes: tuple[str, ...] = ("",)
    daily_units: int = 0

    @classmethod
    def from_settings(cls, settings: Settings) -> "TollLimits":
        return cls(settings.phone_prefixes or _list_own_countries(settings), settings.phone_daily_limit)


def _list_own_countries(settings: Settings) -> tuple[str, ...]:
    """Return the beginnings of the numbers in the countries of the senders; all if nothing can be sent."""
    accounts = list_accounts(settings)
    if not accounts:
        return TollLimits().prefixes
    senders = [each for one in accounts for each in (one.sms_from, one.call_from)]
    return tuple(sorted({country for each in senders if (country := find_country(each)) is not None}))


class _Configured:
    """The limits of this process."""

    limits = TollLimits()


def configure(settings: Settings) -> None:
    """Use the limits of these settings; once, when a process starts that sends messages."""
    _Configured.limits = TollLimits.from_settings(settings)


def find_toll_obstacle(
    account: int,
    channel: int,
    address: str,
    now: datetime,
    *,
    is_requested: bool = False,
    limits: TollLimits | None = None,
) -> Reason | None:
    """Return why no message that costs money is sent to this address now; None: nothing prevents it.

    `account` is a row number. `is_requested`: a person asks for the message, and no incident needs it.
    `limits` None: those of this process. Threads that send at the same time can exceed the limit by the
    messages that are in flight.
    """
    spec = CHANNELS.get(channel)
    if spec is None or spec.toll_units == 0:
        return None
    limits = limits or _Configured.limits
    if not limits.prefixes:
        return make_reason("countries_not_set")
    if not address.startswith(limits.prefixes):
        return make_reason("country_not_allowed", prefixes=limits.prefixes)
    if is_expensive(address, limits.prefixes):
        return make_reason("number_expensive")
    if limits.daily_units == 0:
        return None
    most = limits.daily_units * (REQUESTED_SHARE if is_requested else 1)
    if count_units(account, now) + spec.toll_units > most:
        return make_reason("toll_limit", limit=limits.daily_units)
    return None


def count_units(account: int, now: datetime) -> int:
    """Return the units of the messages that providers accepted for this account in the last 24 hours."""
    counts = (
        Message.select(Message.channel, peewee.fn.COUNT(Attempt.id))
        .join(Attempt, on=(Attempt.message == Message.id))
        .where(_is_recent(now), Message.account == account, Attempt.outcome == AttemptOutcome.SENT.value)
        .group_by(Message.channel)
    )
    return sum(CHANNELS[channel].toll_units * count for channel, count in counts.tuples())


def _is_recent(now: datetime) -> peewee.Expression:
    """Return the condition for messages that cost money and were finished in the last 24 hours.

    The states are literals, so that SQLite uses the partial indexes of finished messages.
    """
    channels = [number for number, spec in CHANNELS.items() if spec.toll_units]
    recent = Message.channel.in_(channels) & (Message.done_at > now - DAY)
    sent, failed = (peewee.SQL(str(int(state))) for state in (MessageStatus.SENT, MessageStatus.FAILED))
    return ((Message.state == sent) & recent) | ((Message.state == failed) & recent)
