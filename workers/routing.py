"""Work on a router's lane: take what waits, in order; choose; write an event for each target; ring them.

A transaction of its own, under the router's lock, which touches no service. A batch that fails for a
reason of our own is taken again one by one, and what still fails is set aside with its error (law 9).
"""

from collections.abc import Sequence
from time import thread_time

import structlog

from models.apply import apply
from models.base import STORE_ERRORS, connection, store
from models.effects import EventState, Outcome
from models.enums import WorkState
from models.events import Receipt
from models.loading import lock_router, lock_service
from models.routers import GlobalRouter
from pipeline.routing import Incoming, Routing
from pipeline.topology import AFTER_ROUTING
from tocsin import metrics
from workers import anew, bell, configuration, telling
from workers.lanes import Ran, run_batches
from workers.pace import Pace
from workers.waiting import waiting_routers, waiting_to_route

log = structlog.get_logger()

# The alerts at their targets after which a transaction ends.
MOST_WRITTEN = 10_000

_pace = Pace()


def run(router_row: int, seconds: float | None = None) -> Ran:
    """Work until nothing waits in a router's lane, or until the time is over; None is no limit."""
    with connection():
        return run_batches(lambda: _batch(router_row), seconds)


def sweep() -> int:
    """Every router with something waiting; one that fails keeps none of the others waiting."""
    taken = 0
    with connection():
        routers = waiting_routers()
    for router_row in routers:
        try:
            taken += run(router_row).taken
        except Exception:
            log.exception("a router's lane failed", router=router_row)
    return taken


def _batch(router_row: int) -> int:
    try:
        return _transaction(router_row, _pace.most())
    except STORE_ERRORS:
        _pace.failed()
        raise
    except Exception:
        log.exception("a batch failed and is taken one by one", router=router_row)
        return _one_by_one(router_row)


def _transaction(router_row: int, limit: int) -> int:
    with store().writing():
        held_from = thread_time()
        router = lock_router(router_row)
        waiting = waiting_to_route(router_row, limit) if router else []
        if router is None or not waiting:
            return 0
        taken, events = _chosen(configuration.of_router(router), waiting)
        _write(taken, events)
    _pace.took(len(taken), thread_time() - held_from)
    _told(events)
    return len(taken)


def _chosen(routing: Routing, waiting: Sequence[Incoming]) -> tuple[Sequence[Incoming], list[EventState]]:
    """As many of the bodies as make a batch of fair size, one at least, and their alerts."""
    events: list[EventState] = []
    for place, one in enumerate(waiting, start=1):
        events += routing.routed(one)
        if len(events) >= MOST_WRITTEN:
            return waiting[:place], events
    return waiting, events


def _write(taken: Sequence[Incoming], events: list[EventState]) -> None:
    done = Receipt.update(state=WorkState.DONE)
    done.where(Receipt.id.in_([one.receipt for one in taken])).execute()
    apply(Outcome(events=events))


def _told(events: Sequence[EventState]) -> None:
    """Say that they were written: to the lanes of their services, and for those whose road ends here."""
    ended = sum(event.service is None for event in events)
    if ended:
        metrics.count_outcome("route", "ended", ended)
    for service in dict.fromkeys(event.service for event in events if event.service is not None):
        bell.ring_road(service, AFTER_ROUTING)


def _one_by_one(router_row: int) -> int:
    dealt = 0
    while dealt < _pace.most():
        with store().writing():
            router = lock_router(router_row)
            waiting = waiting_to_route(router_row, 1) if router else []
            if router is None or not waiting:
                break
            events, channels = _apart(router, waiting[0])
        _told(events)
        bell.ring_deliveries(channels)
        dealt += 1
    return dealt


def _apart(router: GlobalRouter, one: Incoming) -> tuple[list[EventState], frozenset[int]]:
    """One body by itself; when it fails it is set aside, and told."""
    try:
        return anew.within(lambda: _routed(router, one)), frozenset()
    except STORE_ERRORS:
        raise
    except Exception as error:
        what = telling.name_of(error, "route")
        aside = Receipt.update(state=WorkState.ASIDE, error=what)
        aside.where(Receipt.id == one.receipt).execute()
        return [], _tell(configuration.of_router(router), one, what)


def _routed(router: GlobalRouter, one: Incoming) -> list[EventState]:
    events = configuration.of_router(router).routed(one)
    _write([one], events)
    return events


def _tell(routing: Routing, one: Incoming, what: str) -> frozenset[int]:
    """By the first integration that the router's rules name: a router has no people of its own."""
    facts = routing.facts
    named = dict.fromkeys(action["integration"] for rule in facts.rules for action in rule.actions)
    for target in (facts.targets[unique_id] for unique_id in named if unique_id in facts.targets):
        service = lock_service(target.service)
        if service is not None:
            return telling.tell(service, target.integration, one.trace_id, one.receipt, one.accepted_at, what)
    log.error("an alert is set aside, and its router leads to nobody", trace_id=one.trace_id, error=what)
    return frozenset()
