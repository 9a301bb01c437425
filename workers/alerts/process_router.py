"""Process the lane of a router: write an event for each target of each pending receipt.

A batch is a transaction under the router's lock; it changes no service. If our code fails on a batch, the
worker processes its receipts one by one. A receipt that fails again becomes a dead letter with its error:
invariant 9 (design, section 2).
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
from workers.alerts import config_cache, dead_letters, retry
from workers.alerts.batch_size import BatchSize
from workers.alerts.pending import list_pending_routers, load_pending_for_router
from workers.lane_turns import TurnResult, run_batches

log = structlog.get_logger()

# Number of written events after which a transaction ends.
MAX_EVENTS = 10_000

_batch_size = BatchSize()


def run(router_row: int, seconds: float | None = None) -> TurnResult:
    """Process a router's lane until nothing is pending or `seconds` are over (None: no limit)."""
    with connection():
        return run_batches(lambda: _process_batch(router_row), seconds)


def sweep() -> int:
    """Process every router that has pending receipts. A router that fails does not stop the others."""
    taken = 0
    with connection():
        routers = list_pending_routers()
    for router_row in routers:
        try:
            taken += run(router_row).taken
        except Exception:
            log.exception("lane of a router failed", router=router_row)
    return taken


def _process_batch(router_row: int) -> int:
    try:
        return _run_transaction(router_row, _batch_size.get_limit())
    except STORE_ERRORS:
        _batch_size.reduce()
        raise
    except Exception:
        log.exception("batch failed, processing one by one", router=router_row)
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
    """Route at least one body, and more until there are MAX_EVENTS events. Return the bodies and events."""
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
    """Enqueue the lanes of the events' services. Count the alerts that were routed to no service."""
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
    """Route one body alone. If that fails, the receipt becomes a dead letter, and an incident reports it."""
    try:
        return retry.run_in_savepoint(lambda: _route_one(router, incoming)), frozenset()
    except STORE_ERRORS:
        raise
    except Exception as error:
        description = dead_letters.describe_error(error, "route")
        query = Receipt.update(state=WorkState.DEAD_LETTER, error=description)
        query.where(Receipt.id == incoming.receipt).execute()
        return [], _report(config_cache.get_routing(router), incoming, description)


def _route_one(router: GlobalRouter, incoming: RouterRequest) -> list[EventState]:
    events = config_cache.get_routing(router).route(incoming)
    _write([incoming], events)
    return events


def _report(routing: CompiledRouter, incoming: RouterRequest, description: str) -> frozenset[int]:
    """Report a dead letter on the service of the first integration in the router's rules.

    A router has no responders of its own. Return the channels with messages to send.
    """
    facts = routing.facts
    names = dict.fromkeys(action["integration"] for rule in facts.rules for action in rule.actions)
    for target in (facts.targets[unique_id] for unique_id in names if unique_id in facts.targets):
        service = lock_service(target.service)
        if service is not None:
            return dead_letters.report_dead_letter(
                service,
                target.integration,
                incoming.trace_id,
                incoming.receipt,
                incoming.accepted_at,
                description,
            )
    log.error(
        "receipt became a dead letter, and the rules of its router name no integration",
        trace_id=incoming.trace_id,
        error=description,
    )
    return frozenset()
