"""Callbacks of Twilio, and of providers with the same interface: read and check them, and answer in TwiML.

Twilio signs the URL and the fields of the form with the Auth Token of the account (HMAC-SHA1). The signature
contains no time, so `received.is_new` must refuse each callback that was received before.
"""

import base64
import hmac
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import SplitResult, parse_qsl, urlsplit
from xml.sax.saxutils import escape

from flask import Response, current_app, request

from models.domain.enums import ProviderState
from models.domain.reasons import Reason
from models.tables.notifications import Attempt, Message
from models.tables.users import ContactMethod
from models.write.delivery_reports import record_report
from pipeline.messages.sms_segments import MAX_SEGMENTS, shorten
from runtime.settings import Settings
from runtime.twilio_accounts import list_accounts
from web.callbacks.received import handle_once, read_body
from web.http.errors import Forbidden, reject

FORM = "application/x-www-form-urlencoded"
SIGNATURE = "X-Twilio-Signature"
# Twilio sends about 40 fields, and may add some at any time.
MAX_FIELDS = 200

_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class TwilioCallback:
    """A callback with a valid signature. `provider` is the name of the account that signed it."""

    provider: str
    fields: Mapping[str, str]

    def get(self, name: str) -> str:
        """Return a field; empty if it is missing."""
        return self.fields.get(name, "")


def get_settings() -> Settings:
    settings: Settings = current_app.config["SETTINGS"]
    return settings


def read_callback() -> TwilioCallback:
    """Return the callback in this request. BadRequest if it is no form, Forbidden if nobody signed it."""
    if request.mimetype != FORM:
        reject("body", f"A callback is a form ({FORM}).")
    body = read_body()
    try:
        fields = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=MAX_FIELDS)
    except ValueError:
        reject("body", f"This is not a form in UTF-8 with at most {MAX_FIELDS} fields.")
    settings = get_settings()
    given = request.headers.get(SIGNATURE, "").encode("latin-1", "replace")
    public = urlsplit(settings.public_url)
    query = request.query_string.decode("latin-1")
    target = public.path + request.path + (f"?{query}" if query else "")
    for account in list_accounts(settings):
        for origin in _list_origins(public):
            if hmac.compare_digest(sign(account.auth_token, origin + target, fields), given):
                return TwilioCallback(account.name, dict(fields))
    raise Forbidden(detail="The signature of this callback is not valid.")


def sign(auth_token: str, url: str, fields: Iterable[tuple[str, str]]) -> bytes:
    """Return the signature of a request by Twilio's rules: the URL, then each field in the order of names."""
    text = url + "".join(name + value for name, value in sorted(set(fields)))
    return base64.b64encode(hmac.digest(auth_token.encode(), text.encode(), "sha1"))


def _list_origins(public: SplitResult) -> Iterator[str]:
    """Yield the origin of the public URL as it is set, then with and without its port.

    Twilio adds or leaves out the port in some kinds of callbacks.
    """
    yield f"{public.scheme}://{public.netloc}"
    host = public.hostname or ""
    host = f"[{host}]" if ":" in host else host
    yield f"{public.scheme}://{host}"
    yield f"{public.scheme}://{host}:{public.port or _PORTS[public.scheme]}"


def find_attempt(callback: TwilioCallback, provider_id: str, contact_type: int) -> Attempt | None:
    """Return the attempt that this provider accepted with this id, with its message and contact."""
    query = Attempt.select(Attempt, Message, ContactMethod).join(Message).join(ContactMethod)
    found: Attempt | None = (
        query.where(
            Attempt.provider_id == provider_id,
            Attempt.provider == callback.provider,
            Message.channel == contact_type,
        )
        .order_by(Attempt.id.desc())
        .first()
    )
    return found if provider_id else None


def record_once(
    provider: str, provider_id: str, status: str, state: ProviderState, reason: Reason, now: datetime
) -> None:
    """Record a report once, in the transaction that remembers its callback. `reason` is that of a failure."""
    why = reason if state is ProviderState.FAILED else None
    handle_once(
        provider,
        f"{provider_id}:{status}",
        now,
        lambda: record_report(provider, provider_id, state, now, why),
    )


def build_xml(twiml: str) -> Response:
    """Return an answer in TwiML."""
    return Response(twiml, mimetype="text/xml")


def build_reply(text: str = "") -> Response:
    """Return an answer that sends this text as an SMS; empty: none."""
    message = f"<Message>{escape(shorten(text, '', MAX_SEGMENTS))}</Message>" if text else ""
    return build_xml(f'<?xml version="1.0" encoding="UTF-8"?><Response>{message}</Response>')
