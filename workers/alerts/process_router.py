"""Work on a router's lane: take what waits, in order; choose; write an event for each target; ring them.

A transaction of its own, under the router's lock, which touches no service. A batch that fails for a
reason of our own is taken again one by one, and what still fails is set aside with its error (law 9).
"""

from collections.abc import Sequence
from time import thread_time

import structlog

from models.domain.effects import ChangeSet, EventState
from models.domain.enums import WorkState
from models.load.lane import lock_router, lock_service
from models.store.base import STORE_ERRORS, connection, store
from models.tables.events import Receipt
from models.tables.routers import GlobalRouter
from models.write.apply import apply
from pipeline.router import CompiledRouter, RouterRequest
from pipeline.topology import AFTER_ROUTING
from runtime import metrics
from workers import queue
from workers.alerts import config_cache, dead_letter_incidents, retry
from workers.alerts.batch_size import BatchSize
from workers.alerts.pending import list_pending_routers, load_pending_for_router
from workers.lane_turns import TurnResult, run_batches

log = structlog.get_logger()

# The alerts at their targets after which a transaction ends.
MAX_EVENTS = 10_000

_batch_size = BatchSize()


def run(router_row: int, seconds: float | None = None) -> TurnResult:
    """Work until nothing waits in a router's lane, or until the time is over; None is no limit."""
    with connection():
        return run_batches(lambda: _process_batch(router_row), seconds)


def sweep() -> int:
    """Every router with something waiting; one that fails keeps none of the others waiting."""
    taken = 0
    with connection():
        routers = list_pending_routers()
    for router_row in routers:
        try:
            taken += run(router_row).taken
        except Exception:
            log.exception("a router's lane failed", router=router_row)
    return taken


def _process_batch(router_row: int) -> int:
    try:
        return _run_transaction(router_row, _batch_size.get_limit())
    except STORE_ERRORS:
        _batch_size.reduce()
        raise
    except Exception:
        log.exception("a batch failed and is taken one by one", router=router_row)
        return _process_one_by_one(router_row)


def _run_transaction(router_row: int, limit: int) -> int:
    with store().write_transaction():
        started = thread_time()
        router = lock_router(router_row)
        pending = load_pending_for_router(router_row, limit) if router else []
        if router is None or not pending:
            return 0
        taken, events = _route_batch(config_cache.get_routing(router), pending)
        _write(taken, events)
    _batch_size.adjust(len(taken), thread_time() - started)
    _report_written(events)
    return len(taken)


def _route_batch(
    routing: CompiledRouter, pending: Sequence[RouterRequest]
) -> tuple[Sequence[RouterRequest], list[EventState]]:
    """As many of the bodies as make a batch of fair size, one at least, and their alerts."""
    events: list[EventState] = []
    for count, incoming in enumerate(pending, start=1):
        events += routing.route(incoming)
        if len(events) >= MAX_EVENTS:
            return pending[:count], events
    return pending, events


def _write(taken: Sequence[RouterRequest], events: list[EventState]) -> None:
    done = Receipt.update(state=WorkState.DONE)
    done.where(Receipt.id.in_([incoming.receipt for incoming in taken])).execute()
    apply(ChangeSet(events=events))


def _report_written(events: Sequence[EventState]) -> None:
    """Say that they were written: to the lanes of their services, and for those whose road ends here."""
    ended = sum(event.service is None for event in events)
    if ended:
        metrics.count_outcome("route", "ended", ended)
    for service in dict.fromkeys(event.service for event in events if event.service is not None):
        queue.enqueue_lane(service, AFTER_ROUTING)


def _process_one_by_one(router_row: int) -> int:
    processed = 0
    while processed < _batch_size.get_limit():
        with store().write_transaction():
            router = lock_router(router_row)
            pending = load_pending_for_router(router_row, 1) if router else []
            if router is None or not pending:
                break
            events, channels = _process_alone(router, pending[0])
        _report_written(events)
        queue.enqueue_deliveries(channels)
        processed += 1
    return processed


def _process_alone(router: GlobalRouter, incoming: RouterRequest) -> tuple[list[EventState], frozenset[int]]:
    """One body by itself; when it fails it is set aside, and told."""
    try:
        return retry.run_in_savepoint(lambda: _route_one(router, incoming)), frozenset()
    except STORE_ERRORS:
        raise
    except Exception as error:
        description = dead_letter_incidents.describe_error(error, "route")
        query = Receipt.update(state=WorkState.DEAD_LETTER, error=description)
        query.where(Receipt.id == incoming.receipt).execute()
        return [], _report(config_cache.get_routing(router), incoming, description)


def _route_one(router: GlobalRouter, incoming: RouterRequest) -> list[EventState]:
    events = config_cache.get_routing(router).route(incoming)
    _write([incoming], events)
    return events


def _report(routing: CompiledRouter, incoming: RouterRequest, description: str) -> frozenset[int]:
    """By the first integration that the router's rules name: a router has no people of its own."""
    facts = routing.facts
    names = dict.fromkeys(action["integration"] for rule in facts.rules for action in rule.actions)
    for target in (facts.targets[unique_id] for unique_id in names if unique_id in facts.targets):
        service = lock_service(target.service)
        if service is not None:
            return dead_letter_incidents.report_dead_letter(
                service,
                target.integration,
                incoming.trace_id,
                incoming.receipt,
                incoming.accepted_at,
                description,
            )
    log.error(
        "an alert is set aside, and its router leads to nobody", trace_id=incoming.trace_id, error=description
    )
    return frozenset()
