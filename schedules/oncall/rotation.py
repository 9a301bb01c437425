"""Whose turn it is in a layer, restrictions aside: contract section 4.5."""

from collections.abc import Iterator
from datetime import datetime
from zoneinfo import ZoneInfo

from models.domain.facts import LayerFacts
from schedules.oncall.local_time import from_local, to_local

# A person by username, from when, and until when.
Turn = tuple[str, datetime, datetime]


def list_turns(
    layer: LayerFacts, zone: ZoneInfo, by_local_time: bool, start: datetime, end: datetime
) -> Iterator[Turn]:
    """The turns of a layer that reach into [start, end): whole, in order, without a pause between them.

    Turn k is user k modulo their number, from `k` shift lengths after the rotation's start. These are elapsed
    time or, by local time, what the clock on the wall goes on by: handoffs stay at their hour.
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
        # By local time, a turn in an hour that the clock jumps over has no length.
        if until > max(opens, start):
            yield layer.usernames[k % len(layer.usernames)], opens, until
        k, opens = k + 1, closes


class _ElapsedRotation:
    """When turn k begins (`of`), and which turn has begun at a moment (`before`)."""

    def __init__(self, layer: LayerFacts) -> None:
        self._start, self._length = layer.start, layer.shift_length

    def get_start(self, k: int) -> datetime:
        return self._start + k * self._length

    def find_turn(self, moment: datetime) -> int:
        return (moment - self._start) // self._length


class _LocalRotation(_ElapsedRotation):
    """The same by the clock on the wall."""

    def __init__(self, layer: LayerFacts, zone: ZoneInfo) -> None:
        super().__init__(layer)
        self._zone, self._local_start = zone, to_local(layer.start, zone)

    def get_start(self, k: int) -> datetime:
        # The first begins when it is said to, be it in the second of two equal hours.
        moment = from_local(self._local_start + k * self._length, self._zone) if k else self._start
        return max(moment, self._start)

    def find_turn(self, moment: datetime) -> int:
        k = (to_local(moment, self._zone) - self._local_start) // self._length
        # Where the clock is set back, later turns may have begun than it shows.
        while self.get_start(k + 1) <= moment:
            k += 1
        return max(k, 0)
