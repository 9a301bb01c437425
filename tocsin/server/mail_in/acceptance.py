"""Store a mail as the alert of each key to which it was sent, in the same way as web stores alerts."""

import re
import time
import uuid
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TypeVar

import orjson
import peewee

from models.domain.identity import derive_uuid
from models.links.return_paths import is_return_path, read_return_path
from models.store.limits import Use
from models.store.store import STORE_ERRORS, connection, store
from models.tables.events import Receipt
from models.tables.notifications import Message
from models.write.bounces import record_bounce
from pipeline.sources.native import mail as mail_source
from tocsin.server.mail_in.bounces import find_failure
from tocsin.server.mail_in.message import read_mail
from web.ingest.group_commit import GroupCommit, NotStoredError, Submission, get_remaining_s

T = TypeVar("T")

# What Tocsin writes before the "@" of the id of a mail, and of the thread of an incident.
_OWN_MAIL = re.compile(r"[0-9a-f]{40}")
_OWN_THREAD = re.compile(r"incident-\S+@[0-9a-f]{12}\.invalid")
# A mail that answers more mails than this is not searched further.
MAX_IDS = 100


class UnknownKey(LookupError):
    """No integration or router has one of these keys."""


class Acceptance:
    """Accepts mails for integrations and routers. Used by several threads."""

    def __init__(self) -> None:
        self._commits = GroupCommit()

    def knows(self, key: str) -> bool:
        """Return whether this key accepts alerts, or is of an address to which a mail comes back.

        NotStoredError if the store cannot be read in time.
        """
        if is_return_path(key):
            return _use_store(lambda: read_return_path(key), time.monotonic()) is not None
        return self._commits.accepts_key(key, None, time.monotonic())

    def accept(self, keys: Sequence[str], raw: bytes, sender: str, arrived_at: float) -> list[str]:
        """Commit a mail for each key that is known, and return the trace_ids: none of one that comes back.

        NotStoredError if one of them is not committed: its sender sends the mail again, and what was
        committed is not stored twice. Raises BadMail, and UnknownKey if no key is known any more.
        """
        returned = [key for key in keys if is_return_path(key)]
        for key in returned:
            _use_store(partial(_record_returned, key, raw), arrived_at, Use.OTHER)
        keys = [key for key in keys if key not in returned]
        if returned and not keys:
            return []
        mail = read_mail(raw, sender)
        is_own = _is_own(mail.ids[:MAX_IDS], arrived_at)
        body = orjson.dumps({**mail.fields, "is_own": True} if is_own else mail.fields)
        stored = [self._store(key, body, arrived_at, has_id="message_id" in mail.fields) for key in keys]
        known = [trace_id for trace_id in stored if trace_id]
        if not known:
            raise UnknownKey
        return known

    def _store(self, key: str, body: bytes, arrived_at: float, *, has_id: bool) -> str:
        """Commit a mail and return its trace_id; "" if its key is unknown.

        The same mail with a Message-ID is the same alert: its sender did not get the answer.
        """
        trace_id = derive_uuid("mail", key, body.hex()) if has_id else str(uuid.uuid4())
        if has_id and _exists(Receipt.select(Receipt.id).where(Receipt.trace_id == trace_id), arrived_at):
            return trace_id
        submission = Submission(key, None, mail_source.KIND, body, 1, trace_id, arrived_at=arrived_at)
        self._commits.submit(submission)
        return trace_id if submission.is_stored else ""


def _is_own(ids: Collection[tuple[str, str]], arrived_at: float) -> bool:
    """Return whether one of these ids is of a message of Tocsin, or of a thread of its messages."""
    if any(_OWN_THREAD.fullmatch("@".join(pair)) for pair in ids):
        return True
    names = {name for name, _ in ids if _OWN_MAIL.fullmatch(name)}
    return bool(names) and _exists(
        Message.select(Message.id).where(Message.message_id.in_(names)), arrived_at
    )


def _exists(query: peewee.ModelSelect, arrived_at: float) -> bool:
    """Return whether the query finds a row. NotStoredError if the store cannot be read in time."""
    return bool(_use_store(query.exists, arrived_at))


def _record_returned(key: str, raw: bytes) -> None:
    """Record a mail that came back. A mail that reports no failure is of no interest."""
    message_id, status = read_return_path(key), find_failure(raw)
    if message_id is not None and status is not None:
        record_bounce(message_id, status, store().now())


def _use_store(work: Callable[[], T], arrived_at: float, use: Use = Use.KEYS) -> T:
    """Do work with a connection. NotStoredError if the store does not answer in time."""
    try:
        with store().deadline(get_remaining_s(arrived_at)), connection(use):
            return work()
    except (*STORE_ERRORS, OSError) as error:
        raise NotStoredError from error
