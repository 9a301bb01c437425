"""Change an incident: lock it, decide, write the decision, and enqueue its messages after the commit."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import partial

from models.domain.effects import Author, ChangeSet, Effect, IncidentState
from models.domain.facts import IncidentContext
from models.load.lane import lock_incident
from models.store.base import store
from models.write.apply import apply

# What the change is; None: the incident stays as it is. It may read what must not change before the commit.
Decide = Callable[[IncidentContext], Iterable[Effect] | None]
# Begins to send the messages of these channels, without an exception: workers.queue.enqueue_deliveries, or
# workers.delivery.deliver.enqueue in a process that sends.
Enqueue = Callable[[Iterable[int]], object]


def change_incident(
    row: int,
    author: Author,
    decide: Decide,
    now: datetime,
    enqueue: Enqueue,
    *,
    policies: Iterable[int] = (),
    slas: Iterable[int] = (),
) -> IncidentState | None:
    """Change an incident (row number) as decided under its lock. Return its state before the change.

    None: it does not exist, or `decide` returned None. `author`, `policies` and `slas` are as in
    lock_incident(). The caller may have opened the transaction: then `enqueue` waits for its end.
    """
    with store().write_transaction():
        context = lock_incident(row, author, now, policies, slas)
        effects = None if context is None else decide(context)
        if context is None or effects is None:
            return None
        write_changes(effects, {context.incident.unique_id: row}, enqueue)
    return context.incident


def write_changes(effects: Iterable[Effect], rows: Mapping[str, int], enqueue: Enqueue) -> None:
    """Write effects in the transaction of the caller, and enqueue their messages after its commit.

    `rows` is as in apply().
    """
    written = apply(ChangeSet(effects=list(effects)), rows)
    store().after_commit(partial(enqueue, written.channels))
