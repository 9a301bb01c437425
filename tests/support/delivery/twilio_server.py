"""A provider with the interface of Twilio, on loopback: it takes SMS and calls, and sends signed callbacks.

It does with the TwiML of a call what Twilio does: it says the texts, and sends pressed keys to the URL of the
Gather verb.
"""

import base64
import contextlib
import hashlib
import hmac
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlencode, urljoin
from xml.etree import ElementTree

SID, TOKEN, NUMBER = f"AC{'1' * 32}", "the auth token", "+15005550006"
FORM = "application/x-www-form-urlencoded"

# Sends a form to a URL with headers, and returns the text of the answer.
Deliver = Callable[[str, bytes, dict[str, str]], str]


def sign(token: str, url: str, fields: dict[str, str]) -> str:
    """Return X-Twilio-Signature of a request, as the documentation of Twilio computes it."""
    text = url
    for name in sorted(fields):
        text += name + fields[name]
    return base64.b64encode(hmac.new(token.encode(), text.encode(), hashlib.sha1).digest()).decode()


@dataclass(frozen=True)
class Refusal:
    """What the server sends instead of an acceptance. `breaks_off`: it ends in the middle of its body."""

    status: int
    code: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    breaks_off: bool = False


# The server takes the request and never answers, or sends a byte now and then.
SILENT, SLOW = Refusal(0), Refusal(1)


@dataclass
class Created:
    """A call or an SMS that the server accepted: its id and the fields of its request."""

    sid: str
    fields: dict[str, str]
    server: "TwilioServer"
    twiml: str = ""

    @property
    def to(self) -> str:
        return self.fields["To"]

    @property
    def body(self) -> str:
        return self.fields["Body"]

    def hear(self) -> str:
        """Return all that the call says until it ends or needs a key."""
        return " ".join(say.text or "" for say in ElementTree.fromstring(self.twiml).iter("Say"))

    def press(self, digit: str, **changes: str) -> str:
        """Press a key, and return what the call says then."""
        gather = ElementTree.fromstring(self.twiml).find("Gather")
        assert gather is not None, "the call does not ask for a key"
        fields = {"CallSid": self.sid, "To": self.to, "From": NUMBER, "Direction": "outbound-api"}
        self.twiml = self.server.call_back(
            urljoin(self.fields["StatusCallback"], gather.attrib["action"]),
            {**fields, "Digits": digit, **changes},
        )
        return self.hear()

    def report(self, status: str, **more: str) -> None:
        """Report the status of the call or the SMS."""
        kind = "Call" if self.sid.startswith("CA") else "Message"
        fields = {f"{kind}Sid": self.sid, f"{kind}Status": status, "To": self.to, **more}
        self.server.call_back(self.fields["StatusCallback"], fields)


@dataclass
class TwilioServer:
    """`refusals`: what the next requests get, in this order; then all are accepted.

    `early_status`: what it reports about each call or SMS before it answers the request.
    """

    url: str = ""
    created: list[Created] = field(default_factory=list)
    requests: int = 0
    refusals: list[Refusal] = field(default_factory=list)
    deliver: Deliver | None = None
    token: str = TOKEN
    replies: int = 0
    early_status: str = ""
    ended: threading.Event = field(default_factory=threading.Event)

    def call_back(self, url: str, fields: dict[str, str], token: str = "", signature: str = "") -> str:
        """Send a callback to Tocsin, with a valid signature unless another token or signature is given."""
        assert self.deliver is not None
        all_fields = {"AccountSid": SID, "ApiVersion": "2010-04-01", **fields}
        signature = signature or sign(token or self.token, url, all_fields)
        headers = {"Content-Type": FORM, "X-Twilio-Signature": signature}
        return self.deliver(url, urlencode(all_fields).encode(), headers)

    def reply(self, url: str, sender: str, body: str, **more: str) -> str:
        """Send Tocsin an SMS that somebody sent, and return the text of its reply; empty: none."""
        self.replies += 1
        fields = {"MessageSid": f"SM{self.replies:032}", "From": sender, "To": NUMBER, "Body": body, **more}
        message = ElementTree.fromstring(self.call_back(url, fields)).find("Message")
        return "" if message is None else message.text or ""

    def accept(self, path: str, fields: dict[str, str]) -> dict[str, str]:
        prefix = "CA" if path.endswith("/Calls.json") else "SM"
        new = Created(f"{prefix}{len(self.created):032x}", fields, self, fields.get("Twiml", ""))
        self.created.append(new)
        if self.early_status:
            new.report(self.early_status)
        return {"sid": new.sid, "status": "queued", "account_sid": SID}


@contextlib.contextmanager
def start_twilio(token: str = TOKEN) -> Iterator[TwilioServer]:
    """Start a server of this interface on loopback."""
    twilio = TwilioServer(token=token)
    http = ThreadingHTTPServer(("127.0.0.1", 0), _build_handler(twilio))
    http.daemon_threads = True
    twilio.url = f"http://127.0.0.1:{http.server_port}"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield twilio
    finally:
        twilio.ended.set()
        http.shutdown()
        thread.join()
        http.server_close()


def _build_handler(twilio: TwilioServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            twilio.requests += 1
            text = self.rfile.read(int(self.headers["Content-Length"])).decode()
            fields = {name: values[0] for name, values in parse_qs(text, keep_blank_values=True).items()}
            refusal = twilio.refusals.pop(0) if twilio.refusals else None
            if refusal is SILENT:
                twilio.ended.wait(10)
            elif refusal is SLOW:
                self._send_slowly()
            elif refusal is not None:
                self._send(refusal.status, {"code": refusal.code, "message": "refused"}, refusal)
            elif not self._is_logged_in():
                self._send(401, {"code": 20003, "message": "Authenticate"})
            else:
                self._send(201, twilio.accept(self.path, fields))

        def _is_logged_in(self) -> bool:
            login = base64.b64encode(f"{SID}:{twilio.token}".encode()).decode()
            path = self.path.startswith(f"/2010-04-01/Accounts/{SID}/")
            return path and self.headers["Authorization"] == f"Basic {login}"

        def _send(self, status: int, answer: dict[str, object], refusal: Refusal | None = None) -> None:
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            for name, value in (refusal.headers if refusal else {}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body[: len(body) // 2] if refusal and refusal.breaks_off else body)

        def _send_slowly(self) -> None:
            with contextlib.suppress(OSError):
                while not twilio.ended.wait(0.02):
                    self.wfile.write(b"H")

        def log_message(self, *_: object) -> None:
            """Write nothing."""

    return Handler
