"""Count the decisions of a transaction on alerts, after its commit."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

from models.domain.effects import EventState
from models.domain.enums import WorkState
from pipeline.topology import Segment
from runtime import metrics


class Tally:
    """What one transaction decides on alerts."""

    def __init__(self) -> None:
        self.alerts = 0
        self.opened = 0
        self.dead_letters = 0
        self.first_at: datetime | None = None
        # How many alerts ended at each stage.
        self.ended: Counter[str] = Counter()

    def add_events(self, events: Sequence[EventState]) -> None:
        """Add the events that the transaction wrote."""
        if self.first_at is None and events:
            self.first_at = events[0].creation_date
        self.alerts += len(events)
        self.opened += sum([event.incident_created for event in events])
        self.ended.update([event.reasons[-1][0] for event in events if event.state is WorkState.DONE])


def count_batch(tally: Tally, segment: Segment) -> None:
    """Count a batch after its commit. It passed through the stages of this segment."""
    stages, is_last = segment.stage_names, segment.next_segment is None
    if tally.dead_letters:
        metrics.count_outcome(stages[0], "dead letter", tally.dead_letters)
    if not tally.alerts:
        return
    metrics.counters.observe("tocsin_batch_alerts", tally.alerts)
    if tally.opened:
        metrics.counters.add("tocsin_incidents_opened_total", tally.opened)
    if is_last and tally.first_at is not None:
        seconds = (datetime.now(UTC) + metrics.store_clock.offset - tally.first_at).total_seconds()
        metrics.counters.observe("tocsin_accept_to_done_seconds", max(seconds, 0.0))
    _count_stages(tally, stages)


def _count_stages(tally: Tally, stages: Sequence[str]) -> None:
    """Count for each stage the alerts that ended there and those that continued."""
    remaining = tally.alerts
    for stage in stages:
        ended = tally.ended[stage]
        remaining -= ended
        for outcome, count in (("ended", ended), ("continued", remaining)):
            if count:
                metrics.count_outcome(stage, outcome, count)
