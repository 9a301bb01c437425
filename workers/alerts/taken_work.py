"""The pending work that one transaction takes: its alerts in order, and the marks of what is done."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence

import peewee

from models.domain.enums import WorkState
from models.load.source_setups import load_source_facts
from models.store import bulk
from models.store.prepared import Prepared, in_bound
from models.tables.events import Event, Receipt, ReceiptProgress
from pipeline.run_stages import AlertInProgress
from pipeline.stages.normalize import build_alerts, build_body, parse_alerts
from workers.alerts import amazon
from workers.alerts.pending import PendingWork


class TakenWork:
    """Pending work that one transaction takes, as alerts in order.

    `decided` counts its alerts that were decided. `pieces` are the receipts that may be processed in pieces,
    and whether more pieces follow. `has_events`: some alerts have an event, which must be deleted before the
    new one with the same ID is written. Raises the error of a body that cannot be parsed. A receipt for which
    Amazon may not be asked now is left out, and stays pending.
    """

    def __init__(self, pending: Sequence[PendingWork]) -> None:
        self.items: list[AlertInProgress] = []
        # The number of alerts up to and with each receipt or event.
        self._ends: list[int] = []
        self._pending: list[PendingWork] = []
        for work in pending:
            try:
                self.items += build_items(work)
            except amazon.PutOff:
                continue
            self._pending.append(work)
            self._ends.append(len(self.items))
        self.has_events = any(work.event is not None for work in pending)
        self.decided = 0
        self.pieces: dict[int, bool] = {}

    def mark_decided(self, count: int) -> dict[int, bool]:
        """Mark the first alerts as decided. Mark the receipts and events that have no other alerts left.

        Return `pieces`.
        """
        self.decided = count
        finished = self._pending[: bisect_right(self._ends, count)]
        mark_done([work for work in finished if work.is_completed])
        for work in finished:
            if work.piece is not None and not work.is_completed:
                save_progress(work.receipt, work.piece.stop)
        begin = self._ends[len(finished) - 1] if finished else 0
        if begin < count:
            save_progress(self._pending[len(finished)].receipt, self.items[count - 1].alert.position + 1)
        undecided = self._pending[len(finished) : len(finished) + 1]
        self.pieces = find_pieces(self.items[:count], finished, undecided)
        return self.pieces


def find_pieces(
    decided: Sequence[AlertInProgress], finished: Sequence[PendingWork], undecided: Sequence[PendingWork] = ()
) -> dict[int, bool]:
    """Return the receipts with alerts that were not decided now, and whether more alerts follow.

    Those of a router's receipt may be in another service. `finished` is the work of the decided alerts,
    `undecided` the work after it.
    """
    counts = Counter(item.alert.receipt for item in decided)
    sizes = {item.alert.receipt: item.alert.group_size for item in decided}
    more = {work.receipt for work in finished if work.is_followed or not work.is_completed}
    more |= {work.receipt for work in undecided}
    return {receipt: receipt in more for receipt, count in counts.items() if count < sizes[receipt]}


def build_items(work: PendingWork) -> Sequence[AlertInProgress]:
    """Return the alerts of a receipt, of its piece, or of an event. Raises the error of a bad body.

    Raises AnswerMissing if Amazon must be asked before, and PutOff if it may not be asked now
    (workers/alerts/amazon.py).

    Of a replayed receipt in pieces, the alerts that are stored already are left out.
    """
    if work.item is not None:
        return (work.item,)
    if work.piece is None:
        raw = build_body(work.source, work.body, work.headers, lambda: load_source_facts(work.integration))
        raw.received_at = work.received_at or work.accepted_at
        body = amazon.complete(work.source, raw, work.receipt)
        alerts = parse_alerts(
            work.trace_id,
            work.receipt,
            work.integration,
            work.source,
            body,
            work.accepted_at,
            received_at=work.received_at,
        )
        return [AlertInProgress(alert) for alert in alerts]
    alerts = build_alerts(
        work.trace_id,
        work.receipt,
        work.integration,
        work.accepted_at,
        work.piece.alerts,
        len(work.piece.body.alerts),
        work.piece.start,
        received_at=work.received_at,
    )
    written = list_written(work) if work.is_replayed else ()
    return [AlertInProgress(alert) for alert in alerts if alert.event_id not in written]


def list_written(work: PendingWork) -> set[str]:
    """Return the event_ids of a receipt's alerts that are stored already.

    Some are stored if the receipt itself became a dead letter and was replayed.
    """
    condition: peewee.Expression = Event.receipt == work.receipt
    if work.piece is not None:
        condition &= (Event.position >= work.piece.start) & (Event.position < work.piece.stop)
    return {event for (event,) in Event.select(Event.unique_id).where(condition).tuples()}


_DONE = Prepared(lambda: Receipt.update(state=WorkState.DONE).where(in_bound(Receipt.id, "receipts")))
# An alert of an earlier piece that could not be stored has left its error.
_END_STATE = peewee.Case(None, [(Receipt.error.is_null(), WorkState.DONE)], WorkState.DEAD_LETTER)


def mark_done(pending: Sequence[PendingWork]) -> None:
    """Mark receipts as done, and delete the pending events: the stages write new rows for them."""
    receipts = [work.receipt for work in pending if work.event is None and work.piece is None]
    if receipts:
        _DONE.run(receipts=receipts)
    in_pieces = [work.receipt for work in pending if work.piece is not None]
    if in_pieces:
        Receipt.update(state=_END_STATE).where(Receipt.id.in_(in_pieces)).execute()
        ReceiptProgress.delete().where(ReceiptProgress.receipt.in_(in_pieces)).execute()
    events = [work.event for work in pending if work.event is not None]
    if events:
        Event.delete().where(Event.id.in_(events)).execute()


def save_progress(receipt: int, alerts_done: int, events_written: int = 0) -> None:
    """Store that the first alerts of a receipt are done. The next piece begins after them."""
    record = {"receipt": receipt, "alerts_done": alerts_done, "events_written": events_written}
    replacing = ("alerts_done", "events_written")
    bulk.insert(ReceiptProgress, [record], conflict=("receipt",), replacing=replacing)
