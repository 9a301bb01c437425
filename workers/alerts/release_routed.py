"""Let the messages of a router's receipt be sent after its last piece.

A service can be done with all its events of the receipt before the router is: then it holds its messages for
events that do not come. Each of the two looks after its own commit whether the other one is done, so that the
later one releases the messages, and neither waits for the other.
"""

from collections.abc import Collection, Iterable

from models.domain.enums import WorkState
from models.store.store import store
from models.tables.events import Event, Receipt
from models.write.shared_messages import list_with_messages, name_pieces, release
from workers.delivery import deliver


def release_in_services(receipts: Collection[int]) -> None:
    """Release the messages of receipts that are completely routed, in all services.

    Call it after the commit.
    """
    query = Event.select(Event.receipt, Event.service)
    _release(query.where(Event.receipt.in_(list(receipts)), Event.service.is_null(False)).distinct().tuples())


def release_in_service(receipts: Collection[int], service_row: int) -> None:
    """Release the messages of those of these receipts that are completely routed, in one service.

    Call it after the commit.
    """
    routed = Receipt.select(Receipt.id).where(
        Receipt.id.in_(list(receipts)), Receipt.state != WorkState.PENDING
    )
    _release((receipt, service_row) for (receipt,) in routed.tuples())


def _release(done: Iterable[tuple[int, int]]) -> None:
    """Release the messages of these receipts in these services, except where events are left.

    The worker that processes the last event of a receipt in a service releases its messages itself.
    """
    names = {name_pieces(receipt, service): (receipt, service) for receipt, service in done}
    with_messages = {name: names[name] for name in list_with_messages(list(names))}
    if not with_messages:
        return
    receipts, services = (list(set(rows)) for rows in zip(*with_messages.values(), strict=True))
    with store().write_transaction():
        left = Event.select(Event.receipt, Event.service).where(
            Event.receipt.in_(receipts), Event.service.in_(services), Event.state == WorkState.PENDING
        )
        rest = set(left.distinct().tuples())
        channels = release([name for name, pair in with_messages.items() if pair not in rest])
    deliver.enqueue(channels)
