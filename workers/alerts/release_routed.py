"""Let the messages of a router's receipt be sent after its last piece.

A service can be done with all its events of the receipt before the router is: then it holds its messages for
events that do not come.
"""

from models.domain.enums import WorkState
from models.load.lane import lock_service
from models.store.base import store
from models.tables.events import Event
from models.write.shared_messages import list_with_messages, name_pieces, release
from workers.delivery import deliver


def release_routed(receipt: int) -> None:
    """Release the messages of a receipt that is completely routed, in each service that has processed it."""
    found = Event.select(Event.service).where(Event.receipt == receipt, Event.service.is_null(False))
    names = {name_pieces(receipt, service): service for (service,) in found.distinct().tuples()}
    with_messages = list_with_messages(list(names))
    for name in sorted(with_messages, key=lambda each: names[each]):
        deliver.enqueue(_release(receipt, names[name], name))


def _release(receipt: int, service_row: int, name: str) -> frozenset[int]:
    """Release the messages in one service, unless it has events left: then its worker does it."""
    with store().write_transaction():
        # A worker that holds the lock may not know yet that no more events come.
        lock_service(service_row)
        left = Event.select().where(
            Event.receipt == receipt, Event.service == service_row, Event.state == WorkState.PENDING
        )
        return frozenset() if left.exists() else release([name])
