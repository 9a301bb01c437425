"""Notices to rows, and which of them travel together in one message."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from models import bulk
from models.base import store
from models.effects import NoticeState, VoidNotices
from models.enums import NoticeState as NoticeStatus
from models.ids import message_id
from models.incidents import Incident
from models.notices import Message, Notice
from models.prepared import Prepared, among, any_of, given


@dataclass(slots=True)
class Owed:
    """A notice on its way into the store; `void` when the same transaction already took it back."""

    notice: NoticeState
    void: VoidNotices | None = None


def write_notices(owed: Mapping[str, Owed], known: Mapping[str, int]) -> frozenset[int]:
    """Insert notices that are new by key, each in exactly one message; returns the channels to ring.

    What one transaction owes to one contact for the same reason and step is one message. A message
    whose notices are void already is written as it is: the delivery says so.
    """
    fresh = _fresh(owed) if owed else []
    if not fresh:
        return frozenset()
    bundles = _bundled(fresh)
    now = min(one.notice.not_before for one in fresh)
    messages = _insert_messages(bundles, _account_of(fresh[0], known), now)
    records = []
    for name, group in bundles.items():
        records += [_record(one, known, messages[name]) for one in group]
    bulk.insert(Notice, records)
    return frozenset(one.notice.channel for one in fresh)


def void_owed(voids: Mapping[str, list[VoidNotices]], known: Mapping[str, int]) -> None:
    """What these incidents owe is void where one of these words concerns it, by the first that does."""
    by_row = {known[unique_id]: said for unique_id, said in voids.items()}
    if not by_row:
        return
    records = []
    for row, incident, kind in _PENDING_NOTICES.rows(incidents=list(by_row)):
        void = next((one for one in by_row[incident] if kind in one.kinds), None)
        if void is not None:
            ended = {"state": NoticeStatus.VOID, "outcome": void.outcome, "done_at": void.at}
            records.append({"id": row, **ended})
    bulk.update(Notice, records)


# Locked in the order in which a delivery locks them, or each would wait for the other.
_PENDING_NOTICES = Prepared(
    lambda: store().for_update(
        Notice.select(Notice.id, Notice.incident, Notice.kind)
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


def _bundled(fresh: list[Owed]) -> dict[str, list[Owed]]:
    """message_id -> the notices that it carries."""
    now = store().now()
    bundles: dict[tuple[object, ...], list[Owed]] = {}
    for one in fresh:
        bundles.setdefault(one.notice.travels_with(now), []).append(one)
    return {message_id([one.notice.key for one in group]): group for group in bundles.values()}


_KNOWN_KEYS = Prepared(lambda: Notice.select(Notice.key).where(among(Notice.key, "keys")))
_ACCOUNT = Prepared(lambda: Incident.select(Incident.account).where(Incident.id == given("incident")))
_MESSAGE_ROWS = Prepared(
    lambda: Message.select(Message.message_id, Message.id).where(among(Message.message_id, "message_ids"))
)


def _fresh(owed: Mapping[str, Owed]) -> list[Owed]:
    known = {key for (key,) in _KNOWN_KEYS.rows(keys=list(owed))}
    return [one for key, one in owed.items() if key not in known]


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
