"""Process the lane of a router: write an event for each target of each pending receipt.

A batch is a transaction under the router's lock. It changes no service, except by an incident about skipped
rules. If our code fails on a batch, the worker processes its receipts one by one. A receipt that fails again
becomes a dead letter with its error: invariant 9 (design, section 2).
"""

from collections.abc import Sequence
from dataclasses import replace
from time import thread_time

import dramatiq
import structlog

from models.domain.effects import ChangeSet, EventState
from models.domain.enums import WorkState
from models.domain.reasons import Reason
from models.load.lane import lock_router, lock_service
from models.store.base import STORE_ERRORS, store
from models.tables.events import Receipt
from models.tables.services import Service
from models.write.apply import apply
from pipeline.router import RouterLane
from pipeline.run_stages import MAX_RULE_WORK, AlertInProgress, run_stages
from pipeline.stages.normalize import parse_routed_alerts
from pipeline.topology import AFTER_ROUTING, ROUTER_SEGMENT
from runtime import metrics
from workers.alerts import lane_actors, report_dead_letters, retry
from workers.alerts.batches import BatchSize, TurnResult, run_batches
from workers.alerts.pending import list_pending_routers, load_pending_for_router
from workers.broker import broker
from workers.delivery import deliver
from workers.lane_turns import turns

log = structlog.get_logger()

# Number of written events after which a transaction ends.
MAX_EVENTS = 10_000

_batch_size = BatchSize()


@dramatiq.actor(broker=broker, queue_name="routers", actor_name="routers")
def process_router(router_row: int) -> None:
    """Process a router's lane for a while. Send it again if work is pending then."""
    more = False

    def work() -> None:
        nonlocal more
        more = run(router_row, lane_actors.SLICE_S).more

    if turns.work((router_row, "router"), work) or more:
        process_router.send(router_row)


def run(router_row: int, seconds: float | None = None) -> TurnResult:
    """Process a router's lane until nothing is pending or `seconds` are over (None: no limit)."""
    return run_batches(lambda: _process_batch(router_row), seconds)


def process_pending_routers() -> int:
    """Process every router that has pending receipts. A router that fails does not stop the others."""
    taken = 0
    for router_row in list_pending_routers():
        try:
            taken += run(router_row).taken
        except Exception as error:
            if store().is_unavailable(error):
                raise
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
        pending = load_pending_for_router(router, limit) if router else []
        if not pending:
            return 0
        taken, events = _route_batch(pending)
        _write(taken, events)
        channels = _report_skipped(taken)
    _batch_size.adjust(len(taken), thread_time() - started)
    _report_written(events)
    deliver.enqueue(channels)
    return len(taken)


def _route_batch(pending: Sequence[RouterLane]) -> tuple[Sequence[RouterLane], list[EventState]]:
    """Route at least one body, and more until there are MAX_EVENTS events or the rules caused much work.

    Return the bodies and events.
    """
    events: list[EventState] = []
    rule_work = 0.0
    for count, incoming in enumerate(pending, start=1):
        events += route(incoming)
        rule_work += incoming.rule_work
        if len(events) >= MAX_EVENTS or rule_work > MAX_RULE_WORK:
            return pending[:count], events
    return pending, events


def route(incoming: RouterLane) -> list[EventState]:
    """Run the alerts of one body through the stages up to `route`. Return the events to write.

    Raises BadBody for a body that should have been refused when it was accepted, and TooManyAlerts.
    """
    alerts = (AlertInProgress(alert) for alert in parse_routed_alerts(incoming))
    return run_stages(alerts, ROUTER_SEGMENT, incoming).events


def _write(taken: Sequence[RouterLane], events: list[EventState]) -> None:
    done = Receipt.update(state=WorkState.DONE)
    done.where(Receipt.id.in_([incoming.receipt for incoming in taken])).execute()
    apply(ChangeSet(events=events))


def _report_written(events: Sequence[EventState]) -> None:
    """Enqueue the lanes of the events' services. Count the alerts that were routed to no service."""
    ended = sum(event.service is None for event in events)
    if ended:
        metrics.count_outcome("route", "ended", ended)
    for service in dict.fromkeys(event.service for event in events if event.service is not None):
        lane_actors.send(service, AFTER_ROUTING)


def _process_one_by_one(router_row: int) -> int:
    processed = 0
    while processed < _batch_size.get_limit():
        with store().write_transaction():
            router = lock_router(router_row)
            pending = load_pending_for_router(router, 1) if router else []
            if not pending:
                break
            events, channels = _process_alone(pending[0])
        _report_written(events)
        deliver.enqueue(channels)
        processed += 1
    return processed


def _process_alone(incoming: RouterLane) -> tuple[list[EventState], frozenset[int]]:
    """Route one body alone. If that fails, the receipt becomes a dead letter, and an incident reports it."""
    try:
        return retry.run_in_savepoint(lambda: _route_one(incoming)), _report_skipped([incoming])
    except STORE_ERRORS:
        raise
    except Exception as error:
        description = report_dead_letters.describe_error(error, "route")
        query = Receipt.update(state=WorkState.DEAD_LETTER, error=description)
        query.where(Receipt.id == incoming.receipt).execute()
        return [], _report(incoming, description)


def _route_one(incoming: RouterLane) -> list[EventState]:
    events = route(incoming)
    _write([incoming], events)
    return events


def _report(incoming: RouterLane, description: Reason) -> frozenset[int]:
    """Report a dead letter. Return the channels with messages to send."""
    responsible = _lock_responsible(incoming)
    if responsible is None:
        log.error(
            "receipt became a dead letter, and the rules of its router name no integration",
            router=incoming.router.facts.row,
            trace_id=incoming.trace_id,
            error=str(description),
        )
        return frozenset()
    service, integration = responsible
    return report_dead_letters.report_dead_letter(
        service, integration, incoming.trace_id, incoming.receipt, incoming.accepted_at, description
    )


def _report_skipped(taken: Sequence[RouterLane]) -> frozenset[int]:
    """Report once that rules were skipped for some of these bodies. Return the channels with messages."""
    incoming = next((one for one in taken if one.skipped is not None), None)
    responsible = _lock_responsible(incoming) if incoming else None
    if incoming is None or incoming.skipped is None or responsible is None:
        return frozenset()
    service, integration = responsible
    alert = replace(incoming.skipped, integration=integration)
    return report_dead_letters.report_skipped_rules(service, alert, router=incoming.router.facts.name)


def _lock_responsible(incoming: RouterLane) -> tuple[Service, int] | None:
    """Lock the service of the first integration in the router's rules. Return both, or None if there is none.

    A router has no responders of its own.
    """
    facts = incoming.router.facts
    names = dict.fromkeys(action["integration"] for rule in facts.rules for action in rule.actions)
    for target in (facts.targets[unique_id] for unique_id in names if unique_id in facts.targets):
        service = lock_service(target.service)
        if service is not None:
            return service, target.integration
    return None
