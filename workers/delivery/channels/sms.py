"""Send messages as SMS. A reply with the code of the message acknowledges or resolves."""

from collections.abc import Mapping

from pipeline.messages.content import MessageContent, list_offered
from pipeline.messages.sms_segments import MAX_SEGMENTS, count_segments, shorten, write_replies
from pipeline.sources.reading.cleaning import clean_line
from runtime.settings import Settings
from runtime.twilio_accounts import TwilioAccount, list_accounts
from workers.delivery.transport.channel import Channel, OutgoingMessage
from workers.delivery.transport.texts import MessageText
from workers.delivery.transport.twilio import TwilioChannel

# The id of a Messaging Service begins so.
MESSAGING_SERVICE = "MG"
# A message without incidents, for example a test, costs one segment.
SHORT_SEGMENTS = 1


def create_channel(settings: Settings) -> Channel:
    accounts = [account for account in list_accounts(settings) if account.sms_from]
    text = MessageText("sms.txt", settings.home)

    def build_fields(message: OutgoingMessage, account: TwilioAccount, public_url: str) -> Mapping[str, str]:
        written = write_sms(text, message.content, message.reply_code)
        return _build_fields(written, message, account, public_url)

    return TwilioChannel("sms", "Messages", settings, accounts, build_fields)


def write_sms(text: MessageText, content: MessageContent, code: str) -> str:
    """Return a message as an SMS. `code` is what the recipient replies with; empty: a reply does nothing."""
    replies = write_replies(list_offered(content), code)
    limit = None if replies or content.links else SHORT_SEGMENTS
    written = text.render(content, replies, limit=limit).strip()
    # The list behind the link of a bundle is all that names its incidents.
    link = "" if replies or len(content.links) != 1 or content.links[0].note else content.links[0].url
    if link in written or count_segments(link) > MAX_SEGMENTS:
        return written
    return shorten(clean_line(content.title), link, MAX_SEGMENTS)


def _build_fields(
    text: str, message: OutgoingMessage, account: TwilioAccount, public_url: str
) -> Mapping[str, str]:
    """Return the fields of the request that sends an SMS."""
    sender = "MessagingServiceSid" if account.sms_from.startswith(MESSAGING_SERVICE) else "From"
    return {
        "To": message.to,
        sender: account.sms_from,
        "Body": text,
        "StatusCallback": f"{public_url}/callbacks/twilio/sms/status/",
    }
