"""The accounts at Twilio, or at providers with the same interface, that send SMS and make phone calls."""

from dataclasses import dataclass

from runtime.settings import Settings


@dataclass(frozen=True, slots=True)
class TwilioAccount:
    """An account. `name` is the provider's name in delivery attempts and reasons.

    `sms_from`: the number or the Messaging Service that sends SMS. `call_from`: the number that calls. Either
    may be empty.
    """

    name: str
    url: str
    account_sid: str
    auth_token: str
    sms_from: str
    call_from: str


def list_accounts(settings: Settings) -> list[TwilioAccount]:
    """Return the accounts that the settings name, the preferred one first."""
    known = (
        TwilioAccount(
            "twilio",
            settings.twilio_url,
            settings.twilio_account_sid,
            settings.twilio_auth_token,
            settings.twilio_sms_from,
            settings.twilio_call_from,
        ),
        TwilioAccount(
            "twilio2",
            settings.twilio2_url,
            settings.twilio2_account_sid,
            settings.twilio2_auth_token,
            settings.twilio2_sms_from,
            settings.twilio2_call_from,
        ),
    )
    return [account for account in known if account.account_sid and account.auth_token]
