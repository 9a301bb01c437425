"""Notices to rows, and which of them travel together in one message."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from models import bulk
from models.base import store
from models.effects import NoticeState, VoidNotices
from models.enums import PROMISED
from models.enums import NoticeState as NoticeStatus
from models.ids import message_id
from models.incidents import Incident
from models.notices import Message, Notice, occasion_of
from models.prepared import Prepared, among, any_of, given
from models.writing.timers import take_back


@dataclass(slots=True)
class Owed:
    """A notice on its way into the store; `void` when the same transaction already took it back."""

    notice: NoticeState
    void: VoidNotices | None = None


def write_notices(owed: Mapping[str, Owed], known: Mapping[str, int]) -> frozenset[int]:
    """Write notices that are new by key, or were taken back before they were sent, each in exactly one
    message; returns the channels to ring.

    What one transaction owes to one contact for the same reason and step is one message. A message
    whose notices are void already is written as it is: the delivery says so.
    """
    rows = _rows_to_write(owed) if owed else {}
    if not rows:
        return frozenset()
    written = [owed[key] for key in rows]
    bundles = _bundled(written, rows)
    now = min(one.notice.not_before for one in written)
    messages = _insert_messages(bundles, _account_of(written[0], known), now)
    records = {
        one.notice.key: _record(one, known, messages[name])
        for name, group in bundles.items()
        for one in group
    }
    bulk.insert(Notice, [record for key, record in records.items() if rows[key] is None])
    bulk.update(Notice, [{"id": rows[key], **record} for key, record in records.items() if rows[key]])
    return frozenset(one.notice.channel for one in written)


def void_owed(voids: Mapping[str, list[VoidNotices]], known: Mapping[str, int]) -> None:
    """What these incidents owe is void where one of these words concerns it, by the first that does.

    What an SLA promised to tell is then not told: its timer may come again.
    """
    by_row = {known[unique_id]: said for unique_id, said in voids.items()}
    if not by_row:
        return
    records = []
    unsaid = {}
    for row, incident, kind, key in _PENDING_NOTICES.rows(incidents=list(by_row)):
        void = next((one for one in by_row[incident] if kind in one.kinds), None)
        if void is not None:
            ended = {"state": NoticeStatus.VOID, "outcome": void.outcome, "done_at": void.at}
            records.append({"id": row, **ended})
            if kind in PROMISED:
                unsaid[incident, occasion_of(key)] = void.outcome
    bulk.update(Notice, records)
    take_back(unsaid)


# Locked in the order in which a delivery locks them, or each would wait for the other.
_PENDING_NOTICES = Prepared(
    lambda: store().for_update(
        Notice.select(Notice.id, Notice.incident, Notice.kind, Notice.key)
        .where(among(Notice.incident, "incidents"), Notice.state == NoticeStatus.PENDING)
        .order_by(Notice.id)
    )
)


def void_notices(incident: int, keys: str, at: datetime, outcome: str) -> None:
    """What an incident (its row number) still owes by keys that begin so is owed no more, and says why."""
    begins = Notice.key.startswith(keys)
    owed = Notice.select(Notice.id).where(
        Notice.incident == incident, Notice.state == NoticeStatus.PENDING, begins
    )
    # Locked in the order in which a delivery locks them, or each would wait for the other.
    rows = [row.id for row in store().for_update(owed.order_by(Notice.id))]
    void = Notice.update(state=NoticeStatus.VOID, outcome=outcome, done_at=at)
    void.where(any_of(Notice.id, rows)).execute()


def _bundled(owed: list[Owed], rows: Mapping[str, int | None]) -> dict[str, list[Owed]]:
    """message_id -> the notices that it carries. What was taken back is in another message than before: that
    one may be on its way, to nobody or all the same, in this very moment."""
    now = store().now()
    bundles: dict[tuple[object, ...], list[Owed]] = {}
    for one in owed:
        bundles.setdefault(one.notice.travels_with(now), []).append(one)
    return {message_id([_called(one, rows) for one in group]): group for group in bundles.values()}


def _called(one: Owed, rows: Mapping[str, int | None]) -> str:
    key = one.notice.key
    return key if rows[key] is None else f"{key}:{one.notice.not_before.isoformat()}"


_KNOWN_KEYS = Prepared(
    lambda: Notice.select(Notice.key, Notice.id, Notice.state).where(among(Notice.key, "keys"))
)
_ACCOUNT = Prepared(lambda: Incident.select(Incident.account).where(Incident.id == given("incident")))
_MESSAGE_ROWS = Prepared(
    lambda: Message.select(Message.message_id, Message.id).where(among(Message.message_id, "message_ids"))
)


def _rows_to_write(owed: Mapping[str, Owed]) -> dict[str, int | None]:
    """The keys of those that are to be written, with the row of what was taken back; None where it is new.

    What was sent, or is about to be, is not owed again (law 8).
    """
    known = {key: (row, state) for key, row, state in _KNOWN_KEYS.rows(keys=list(owed))}
    found = {key: known.get(key, (None, NoticeStatus.VOID)) for key in owed}
    return {key: row for key, (row, state) in found.items() if state == NoticeStatus.VOID}


def _account_of(one: Owed, known: Mapping[str, int]) -> int:
    found = _ACCOUNT.first(incident=known[one.notice.incident])
    assert found is not None
    account: int = found[0]
    return account


def _insert_messages(bundles: Mapping[str, list[Owed]], account: int, now: datetime) -> dict[str, int]:
    """Row numbers by message_id."""
    records = []
    for name, group in bundles.items():
        first = group[0].notice
        records.append(
            {
                "message_id": name,
                "account": account,
                "user": first.user,
                "contact": first.contact,
                "channel": first.channel,
                "created_at": now,
                # Never early: the last of its notices decides.
                "next_at": max(one.notice.not_before for one in group),
            }
        )
    bulk.insert(Message, records)
    return dict(_MESSAGE_ROWS.rows(message_ids=list(bundles)))


def _record(one: Owed, known: Mapping[str, int], message: int) -> dict[str, object]:
    notice, void = one.notice, one.void
    return {
        "key": notice.key,
        "incident": known[notice.incident],
        "user": notice.user,
        "contact": notice.contact,
        "rule": notice.rule,
        "kind": notice.kind.value,
        "reason": notice.reason,
        "not_before": notice.not_before,
        "state": NoticeStatus.VOID if void else NoticeStatus.PENDING,
        "outcome": void.outcome if void else None,
        "done_at": void.at if void else None,
        "message": message,
    }
