"""Compute the turns of a layer before restrictions apply. Contract section 4.5."""

from collections.abc import Iterator
from datetime import datetime
from zoneinfo import ZoneInfo

from models.domain.facts import LayerFacts
from schedules.oncall.local_time import from_local, to_local

# A username, the start and the end.
Turn = tuple[str, datetime, datetime]


def list_turns(
    layer: LayerFacts, zone: ZoneInfo, by_local_time: bool, start: datetime, end: datetime
) -> Iterator[Turn]:
    """Yield the whole turns of a layer that reach into [start, end), in order and without gaps.

    Turn k belongs to user k modulo the number of users and begins k shift lengths after the rotation's start.
    Shift lengths count in elapsed time or, with `by_local_time`, in local time: handoffs keep their hour.
    """
    begins = max(start, layer.start)
    ends = end if layer.end is None else min(end, layer.end)
    if not layer.usernames or begins >= ends:
        return
    rotation = _LocalRotation(layer, zone) if by_local_time else _ElapsedRotation(layer)
    k = rotation.find_turn(begins)
    opens = rotation.get_start(k)
    while opens < ends:
        closes = rotation.get_start(k + 1)
        until = closes if layer.end is None else min(closes, layer.end)
        # By local time, a turn within an hour that the clock skips has no length.
        if until > max(opens, start):
            yield layer.usernames[k % len(layer.usernames)], opens, until
        k, opens = k + 1, closes


class _ElapsedRotation:
    """Find the start of turn k, and the turn that has begun at a moment, in elapsed time."""

    def __init__(self, layer: LayerFacts) -> None:
        self._start, self._length = layer.start, layer.shift_length

    def get_start(self, k: int) -> datetime:
        return self._start + k * self._length

    def find_turn(self, moment: datetime) -> int:
        return (moment - self._start) // self._length


class _LocalRotation(_ElapsedRotation):
    """Find the same in local time."""

    def __init__(self, layer: LayerFacts, zone: ZoneInfo) -> None:
        super().__init__(layer)
        self._zone, self._local_start = zone, to_local(layer.start, zone)

    def get_start(self, k: int) -> datetime:
        # The first turn begins at the exact start of the layer, also in the second of two equal hours.
        moment = from_local(self._local_start + k * self._length, self._zone) if k else self._start
        return max(moment, self._start)

    def find_turn(self, moment: datetime) -> int:
        k = (to_local(moment, self._zone) - self._local_start) // self._length
        # If the clock was set back, later turns may have begun than the local time shows.
        while self.get_start(k + 1) <= moment:
            k += 1
        return max(k, 0)
