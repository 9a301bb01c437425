"""Process the lane of a router: write an event for each target of each pending receipt.

A batch is a transaction under the router's lock. It changes no service, except by an incident about skipped
rules. A receipt with many alerts is processed in pieces, each in its own batch. If our code fails on a batch,
the worker processes its receipts one by one, those with many alerts alert by alert. A receipt that fails
again becomes a dead letter with its error: invariant 9 (design, section 2). What was routed of it stays.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import thread_time
from typing import TypeVar

import dramatiq
import structlog

from models.domain.effects import ChangeSet, EventState
from models.domain.enums import WorkState
from models.domain.reasons import Reason
from models.domain.values import replace
from models.load.lane import lock_router, lock_service
from models.store.store import STORE_ERRORS, store
from models.tables.events import Receipt, ReceiptProgress
from models.tables.services import Service
from models.write.apply import apply
from pipeline.router import RouterLane
from pipeline.run_stages import AlertInProgress, run_stages
from pipeline.stages.normalize import parse_routed_alerts
from pipeline.topology import AFTER_ROUTING, ROUTER_SEGMENT
from runtime import metrics
from workers.alerts import lane_actors, pieces, process_lane, report_dead_letters, retry
from workers.alerts.batches import BatchSize, CostlyLanes, DecisionTime, TurnResult, run_batches
from workers.alerts.pending import list_pending_routers, load_pending_for_router
from workers.alerts.release_routed import release_in_services
from workers.alerts.taken_work import save_progress
from workers.broker import broker
from workers.delivery import deliver
from workers.lane_turns import turns

log = structlog.get_logger()

T = TypeVar("T")

# The most events of a body that is routed alone.
MAX_EVENTS = 10_000

_batch_size = BatchSize()
_costly_routers = CostlyLanes()


@dramatiq.actor(broker=broker, queue_name="routers", actor_name="routers")
def process_router(router_row: int) -> None:
    """Process a router's lane for a while. Send it again if work is pending then."""
    more = False

    def work() -> None:
        nonlocal more
        more = run(router_row, process_lane.SLICE_S).more

    if turns.work((router_row, "router"), work) or more:
        process_router.send(router_row)


def run(router_row: int, seconds: float | None = None) -> TurnResult:
    """Process a router's lane until nothing is pending or `seconds` are over (None: no limit)."""
    return run_batches(lambda: _process_batch(router_row), seconds)


def process_pending_routers() -> int:
    """Process every router that has pending receipts. A router that fails does not stop the others.

    Each router gets a slice of time in turn, so that a large receipt does not delay the others.
    """
    taken, failed = 0, set[int]()
    while routers := [row for row in list_pending_routers() if row not in failed]:
        before = taken
        for router_row in routers:
            try:
                taken += run(router_row, process_lane.SLICE_S).taken
            except Exception as error:
                if store().is_unavailable(error):
                    raise
                failed.add(router_row)
                log.exception("lane of a router failed", router=router_row)
        if taken == before:
            break
    return taken


def _process_batch(router_row: int) -> int:
    try:
        return _run_parsed(lambda: _run_transaction(router_row, _batch_size.get_limit()))
    except STORE_ERRORS:
        _batch_size.reduce()
        raise
    except Exception:
        log.exception("batch failed, processing one by one", router=router_row)
        return _process_one_by_one(router_row)


def _run_parsed(work: Callable[[], T]) -> T:
    """Run a transaction. Parse the body of a receipt in pieces before it."""
    while True:
        try:
            return work()
        except pieces.NotParsed as missing:
            pieces.parse(missing)


def _run_transaction(router_row: int, limit: int) -> int:
    with store().write_transaction():
        started = thread_time()
        router = lock_router(router_row)
        most = _costly_routers.get_limit(router_row, limit)
        pending = load_pending_for_router(router, most) if router else []
        if not pending:
            return 0
        taken = _route_batch(pending, limit)
        events = [event for routed in taken for event in routed.events]
        _write(taken, events)
        channels = _report_skipped([routed.incoming for routed in taken])
    seconds = thread_time() - started
    _costly_routers.record(router_row, len(pending), len(taken))
    if pending[0].alerts is None:
        _batch_size.adjust(len(events), seconds)
    else:
        pieces.adjust_size(pending[0].receipt, len(events), seconds)
    _report_written(taken, events, channels)
    return len(taken)


@dataclass(frozen=True, slots=True)
class Routed:
    """The events of a body or of its piece. `done`: how many alerts of the body are done; None: all."""

    incoming: RouterLane
    events: Sequence[EventState]
    done: int | None = None


def _route_batch(pending: Sequence[RouterLane], limit: int) -> list[Routed]:
    """Route at least one alert, and more until there are `limit` events or the rules took much time."""
    taken: list[Routed] = []
    written, time = 0, DecisionTime()
    for incoming in pending:
        taken.append(route(incoming, limit - written, time))
        written += len(taken[-1].events)
        if taken[-1].done is not None or written >= limit or time.is_over():
            break
    return taken


def route(incoming: RouterLane, max_events: int = MAX_EVENTS, time: DecisionTime | None = None) -> Routed:
    """Run the alerts of one body, or of its piece, through the stages up to `route`.

    Stop after the alert that makes `max_events` events, or after which the time is over. Raises BadBody for a
    body that should have been refused when it was accepted, and TooManyAlerts.
    """
    alerts = list(parse_routed_alerts(incoming))
    events: list[EventState] = []
    time = time or DecisionTime()
    for position, alert in enumerate(alerts, start=1):
        with time:
            events += run_stages([AlertInProgress(alert)], ROUTER_SEGMENT, incoming).events
        if len(events) >= max_events or time.is_over():
            alerts = alerts[:position]
            break
    done = alerts[-1].position + 1
    return Routed(incoming, events, None if done >= alerts[-1].group_size else done)


def _write(taken: Sequence[Routed], events: list[EventState]) -> None:
    finished = [routed.incoming for routed in taken if routed.done is None]
    if finished:
        done = Receipt.update(state=WorkState.DONE)
        done.where(Receipt.id.in_([incoming.receipt for incoming in finished])).execute()
    in_pieces = [incoming.receipt for incoming in finished if incoming.start]
    if in_pieces:
        ReceiptProgress.delete().where(ReceiptProgress.receipt.in_(in_pieces)).execute()
    for routed in taken:
        if routed.done is not None:
            save_progress(routed.incoming.receipt, routed.done, routed.incoming.event_count)
    apply(ChangeSet(events=events))


def _report_written(taken: Sequence[Routed], events: Sequence[EventState], channels: frozenset[int]) -> None:
    """Enqueue the lanes of the events' services, and these channels. Count the alerts without a service.

    Then release the messages of receipts in pieces that are completely routed.
    """
    ended = sum(event.service is None for event in events)
    if ended:
        metrics.count_outcome("route", "ended", ended)
    for service in dict.fromkeys(event.service for event in events if event.service is not None):
        lane_actors.send(service, AFTER_ROUTING)
    deliver.enqueue(channels)
    # Last, so that no lane waits for it.
    in_pieces = [routed.incoming for routed in taken if routed.done is None and routed.incoming.start]
    if in_pieces:
        release_in_services([incoming.receipt for incoming in in_pieces])


def _process_one_by_one(router_row: int) -> int:
    processed, limit = 0, _batch_size.get_small_limit()
    while processed < limit and _run_parsed(lambda: _process_next(router_row)):
        processed += 1
    return processed


def _process_next(router_row: int) -> bool:
    """Process the first pending receipt alone, or its next alert. Return whether there was one."""
    with store().write_transaction():
        router = lock_router(router_row)
        pending = load_pending_for_router(router, 1) if router else []
        if not pending:
            return False
        routed, channels = _process_alone(pending[0])
    _report_written([routed], routed.events, channels)
    return True


def _process_alone(incoming: RouterLane) -> tuple[Routed, frozenset[int]]:
    """Route one body alone, or one alert of a body with many alerts.

    If that fails, the receipt becomes a dead letter, and an incident reports it. Its progress stays: a replay
    continues with the alert that failed.
    """
    try:
        return retry.run_in_savepoint(lambda: _route_one(incoming)), _report_skipped([incoming])
    except STORE_ERRORS:
        raise
    except Exception as error:
        description = report_dead_letters.describe_error(error, "route")
        query = Receipt.update(state=WorkState.DEAD_LETTER, error=description)
        query.where(Receipt.id == incoming.receipt).execute()
        return Routed(incoming, ()), _report(incoming, description)


def _route_one(incoming: RouterLane) -> Routed:
    routed = route(incoming)
    _write([routed], list(routed.events))
    return routed


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
