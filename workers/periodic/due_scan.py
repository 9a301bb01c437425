"""Enqueue wake-ups for due timers and messages, and for alerts whose wake-up was lost.

The clock process runs these jobs every second or two.
"""

from datetime import timedelta

from models.store.store import connection, store
from models.tables.timers import Timer
from workers.alerts import lane_actors, process_router
from workers.alerts.pending import list_pending_lanes, list_pending_routers
from workers.delivery import deliver
from workers.delivery.outbox import list_due_channels
from workers.timers import fire

# If an alert is pending for longer than this, we assume that its wake-up was lost (design, section 6).
# Another wake-up does no harm.
STALE = timedelta(seconds=3)


def enqueue_due() -> None:
    """Enqueue wake-ups for due timers and due messages."""
    with connection():
        now = store().now()
        timers = Timer.select().where(Timer.done_at.is_null(), Timer.due_at <= now).exists()
        due_channels = list_due_channels(now)
    if timers:
        fire.fire_timers.send()
    deliver.enqueue(due_channels)


def enqueue_stale() -> None:
    """Enqueue the lanes of alerts that are pending for so long that their wake-up may be lost."""
    with connection():
        before = store().now() - STALE
        lanes = list_pending_lanes("normalize", before)
        pending_routers = list_pending_routers(before)
    for router_row in pending_routers:
        process_router.process_router.send(router_row)
    for service_row, stage in lanes:
        lane_actors.send(service_row, stage)
