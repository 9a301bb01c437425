"""Call people. The digit that a person presses acknowledges or resolves."""

from collections.abc import Mapping

from pipeline.messages.calls import MAX_TWIML, build_question, build_statement, say
from pipeline.messages.content import list_offered
from runtime.settings import Settings
from runtime.twilio_accounts import TwilioAccount, list_accounts
from workers.delivery.transport.channel import Channel, OutgoingMessage
from workers.delivery.transport.texts import MessageText
from workers.delivery.transport.twilio import TwilioChannel

# How long to try, until nobody has taken the call. Voicemail often takes a call after 25 to 30 s.
NO_ANSWER_S = 25


def create_channel(settings: Settings) -> Channel:
    accounts = [account for account in list_accounts(settings) if account.call_from]
    text = MessageText("phone.txt", settings.home)

    def build_fields(message: OutgoingMessage, account: TwilioAccount, public_url: str) -> Mapping[str, str]:
        return _build_fields(say(text.render(message.content)), message, account, public_url)

    return TwilioChannel("phone", "Calls", settings, accounts, build_fields)


def _build_fields(
    speech: str, message: OutgoingMessage, account: TwilioAccount, public_url: str
) -> Mapping[str, str]:
    """Return the fields of the request that calls a person and says a text."""
    offered = list_offered(message.content)
    twiml = build_statement(speech, times=2)
    if offered:
        twiml = build_question(speech, offered, f"{public_url}/callbacks/twilio/phone/digits/?step=1")
    assert len(twiml) <= MAX_TWIML
    return {
        "To": message.to,
        "From": account.call_from,
        "Twiml": twiml,
        "Timeout": str(NO_ANSWER_S),
        "StatusCallback": f"{public_url}/callbacks/twilio/phone/status/",
    }
