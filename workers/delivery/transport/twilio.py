"""Send SMS and make phone calls through Twilio, or providers with the same interface.

The interface has no idempotency: if a worker is killed, or the answer is lost, between the acceptance by the
provider and its record, the person gets the message twice.
"""

import base64
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from urllib.parse import quote

from models.domain.reasons import Reason, make_reason
from models.domain.values import replace
from pipeline.messages.content import list_offered
from runtime.settings import Settings, find_unset
from runtime.twilio_accounts import TwilioAccount
from workers.delivery.transport.channel import (
    DEADLINE_S,
    Accepted,
    OutgoingMessage,
    Refused,
    RelayError,
    SendError,
    UnusableAddress,
)
from workers.delivery.transport.http import HttpClient, HttpReply, raise_for_status

# A provider that cannot be used is tried after the other one for this long.
PAUSE_S = 60.0

# The error codes that say more than the HTTP status. All others are decided by the status.
#
# The number is the cause, so that no other provider can help:
NUMBER_ERRORS = {
    21211: "it is not valid",
    21214: "it cannot be reached",
    21217: "it is not valid",
    21610: "its owner has sent STOP",
    21614: "it is not a mobile number",
    21635: "it is a landline",
}
# This provider, or this account, does not serve the number. Another one may:
ACCOUNT_ERRORS = {
    21215: "calls to this country are not enabled in the account",
    21216: "calls to this number are not allowed",
    21219: "a trial account calls verified numbers only",
    21408: "SMS to this country are not enabled in the account",
    21608: "a trial account sends to verified numbers only",
    21612: "there is no way from the sender to this number",
    21606: "the sender cannot send SMS to this number",
}
# The settings are the cause, so that no message can be sent:
SETTINGS_ERRORS = {
    20404: "the account does not exist",
    21205: "TOCSIN_PUBLIC_URL is not an address that the provider can open",
    21210: "the number that calls does not belong to the account",
    21212: "the sender is not a valid number",
    21603: "the sender is missing",
    21609: "TOCSIN_PUBLIC_URL is not an address that the provider can open",
    21659: "the sender is not a number of the account",
    21660: "the sender does not belong to the account",
}

# With 403, these codes say that the account may do nothing (10001) or that the login is refused (20003). All
# others are about one number or message, for example a number that the provider blocks (21216): no reason
# to hold messages to others. Origin: Twilio's dictionary of errors; 20000 to 20999 are those of its API.
ACCOUNT_CODES = (range(1, 11_000), range(20_000, 21_000))

# Returns the fields of the request for a message.
BuildFields = Callable[[OutgoingMessage, TwilioAccount, str], Mapping[str, str]]


@dataclass(slots=True)
class _Provider:
    """One account, and until when (monotonic) the other one is tried first."""

    account: TwilioAccount
    client: HttpClient
    down_until: float = 0.0


@dataclass
class TwilioChannel:
    """A channel that creates resources (`Messages` or `Calls`) at the first provider that takes them."""

    name: str
    resource: str
    settings: Settings
    accounts: Sequence[TwilioAccount]
    build_fields: BuildFields
    deadline_s: float = DEADLINE_S
    clock: Callable[[], float] = time.monotonic

    def find_missing_setting(self) -> str | None:
        return self._missing_setting

    @cached_property
    def _missing_setting(self) -> str | None:
        variable = find_unset(self.settings, self.name)
        return f"set {variable}" if variable else None

    def format_example(self, message: OutgoingMessage) -> str:
        """Return the text of an SMS, or the TwiML of a call, for docs/messages.md."""
        account = TwilioAccount("twilio", "", "", "", "+15550100", "+15550100")
        code = "K7QX" if list_offered(message.content) else ""
        fields = self.build_fields(replace(message, reply_code=code), account, self.settings.public_url)
        return fields.get("Body") or fields["Twiml"]

    def create_connection(self) -> "TwilioConnection":
        return TwilioConnection(self)

    @cached_property
    def _providers(self) -> list[_Provider]:
        """The providers. They are created for the first message, since a TLS context takes memory."""
        share_s = self.deadline_s / max(len(self.accounts), 1)
        return [_Provider(account, HttpClient(account.name, share_s)) for account in self.accounts]

    def send(self, message: OutgoingMessage) -> Accepted:
        """Send a message through the first provider that takes it. Raise the error that says most."""
        errors: list[SendError] = []
        for provider in sorted(self._providers, key=lambda each: each.down_until > self.clock()):
            try:
                accepted = self._send_through(provider, message)
            except UnusableAddress:
                raise
            except SendError as error:
                if isinstance(error, RelayError):
                    provider.down_until = self.clock() + PAUSE_S
                errors.append(error)
            else:
                provider.down_until = 0.0
                return replace(accepted, reason=accepted.reason.add(*(error.reason for error in errors)))
        # Only if no provider can be used do other messages have to be held.
        answered = [error for error in errors if not isinstance(error, RelayError)]
        raise (answered or errors)[0]

    def _send_through(self, provider: _Provider, message: OutgoingMessage) -> Accepted:
        account = provider.account
        login = base64.b64encode(f"{account.account_sid}:{account.auth_token}".encode()).decode()
        reply = provider.client.request(
            "POST",
            f"{account.url}/2010-04-01/Accounts/{quote(account.account_sid, safe='')}/{self.resource}.json",
            headers={"Authorization": f"Basic {login}"},
            form=self.build_fields(message, account, self.settings.public_url),
        )
        _raise_error(reply, account.name, message.at)
        found = reply.read_json()
        sid = found.get("sid") if isinstance(found, dict) else None
        return Accepted(
            make_reason("provider_accepted", provider=account.name, code=reply.status),
            account.name,
            sid[:128] if isinstance(sid, str) else "",
        )


def _raise_error(reply: HttpReply, provider: str, now: datetime) -> None:
    """Raise the error that the answer describes, if it describes one."""
    if reply.is_success:
        return
    found = reply.read_json()
    code = found.get("code") if isinstance(found, dict) else None
    if not isinstance(code, int):
        code = 0

    def explain(reason: str, why: str) -> Reason:
        if reason == "number":
            return make_reason("provider_refuses_number", provider=provider, why=why, code=code)
        return make_reason("provider_refuses_settings", provider=provider, why=why, code=code)

    if code in NUMBER_ERRORS:
        raise UnusableAddress(explain("number", NUMBER_ERRORS[code]), provider=provider)
    if code in ACCOUNT_ERRORS:
        raise Refused(explain("number", ACCOUNT_ERRORS[code]), provider=provider)
    if code in SETTINGS_ERRORS:
        raise RelayError(explain("settings", SETTINGS_ERRORS[code]), provider=provider)
    if reply.status == 403 and code and not any(code in codes for codes in ACCOUNT_CODES):
        raise Refused(make_reason("provider_refuses", provider=provider, code=code), provider=provider)
    raise_for_status(reply, provider, now)


class TwilioConnection:
    """Each request has a connection of its own."""

    def __init__(self, channel: TwilioChannel) -> None:
        self._channel = channel

    def open(self) -> bool:
        return False

    def send(self, message: OutgoingMessage) -> Accepted:
        return self._channel.send(message)

    def close(self) -> None:
        """Do nothing: no connection stays open."""
