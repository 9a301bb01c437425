"""Read mails that come back: reports of mail servers about mails of Tocsin that they could not deliver.

Their form is in RFC 3464. Other mails to such an address, for example of absent people, are not reports.
"""

import re
from email import message_from_bytes
from email.message import Message
from email.policy import compat32

# A report has few parts; a mail with more is not read further.
MAX_PARTS = 20
_STATUS = re.compile(r"\s*([245]\.\d{1,3}\.\d{1,3})\b")


def find_failure(raw: bytes) -> str | None:
    """Return the status of the failed delivery that a mail reports, such as 5.1.1; None: it reports none."""
    mail = message_from_bytes(raw, policy=compat32)
    for part in _list_inner(mail):
        if part.get_content_type() == "message/delivery-status":
            return _find_failed(part)
    return None


def _list_inner(mail: Message) -> list[Message]:
    """Return the parts of a mail, or the groups of fields in a report."""
    payload = mail.get_payload()
    inner = payload[:MAX_PARTS] if isinstance(payload, list) else []
    return [one for one in inner if isinstance(one, Message)]


def _find_failed(report: Message) -> str | None:
    """Return the status of the first recipient that the mail did not reach for good."""
    for group in _list_inner(report):
        action, status = str(group.get("Action", "")).strip().lower(), str(group.get("Status", ""))
        found = _STATUS.match(status)
        if action == "failed" and found is not None:
            return found[1]
    return None
