"""Check that a request is from the tool that knows the secret of the integration."""

import hashlib
import hmac
from collections.abc import Callable

from models.domain.reasons import Reason, make_reason
from pipeline.sources.reading.body import RequestBody

Verify = Callable[[RequestBody], Reason | None]


def by_hmac(kind: str, header: str, timestamp_header: str = "") -> Verify:
    """Return a check of an HMAC-SHA256 in hexadecimal digits in this header.

    With a timestamp in the other header, the tool signs the timestamp, a colon and the body. Without a secret
    of the integration, every request is accepted: its key is a secret too. An old request that is sent again
    is accepted, as it is by a tool that has no timestamps.
    """

    def verify(body: RequestBody) -> Reason | None:
        secret = body.setup.secret
        if not secret:
            return None
        sent = body.headers.get(header, "").strip().lower()
        if not sent:
            return make_reason("signature_missing", kind=kind)
        at = body.headers.get(timestamp_header, "") if timestamp_header else ""
        signed = at.encode() + b":" + body.raw if at else body.raw
        known = hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
        if hmac.compare_digest(known.encode(), sent.encode()):
            return None
        return make_reason("signature_wrong", kind=kind)

    return verify
