"""Find handoffs that clock changes move: those of layers whose turns count in elapsed time. Contract 4.5."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from models.domain.facts import LayerFacts, ScheduleFacts
from models.domain.values import replace
from schedules.oncall.checks import Problem, ProblemKind
from schedules.oncall.local_time import DAY, get_offset, get_zone_or_utc, list_offsets, to_local
from schedules.oncall.restrictions import is_unrestricted
from schedules.oncall.schedule_shifts import Span, list_layer_shifts, merge_spans

# The times of at most this many handoffs of a day are named.
MAX_TIMES = 3
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


def find_moved_handoffs(schedule: ScheduleFacts, start: datetime, end: datetime) -> Iterator[Problem]:
    """Yield the spans of [start, end) in which handoffs are not at the local time of their layer's start.

    A span is minor for a layer without restrictions: its handoffs are only earlier or later. For a layer with
    restrictions it is a problem if other people are on call than with turns in local time, such as the person
    of the night before; else it is left out.
    """
    if schedule.by_local_time:
        return
    zone = get_zone_or_utc(schedule.time_zone)
    for layer in schedule.layers:
        offset = get_offset(layer.start, zone)
        for opens, closes, present_offset in list_offsets(zone, start, end):
            span = max(opens, layer.start), closes if layer.end is None else min(closes, layer.end)
            if present_offset != offset and _has_handoff(layer, span):
                only = replace(schedule, layers=(layer,))
                is_minor = is_unrestricted(layer)
                if is_minor or _list_people(only, span) != _list_people(_by_local_time(only), span):
                    yield _build_problem(only, layer, span, (start, end), present_offset - offset, is_minor)


def _has_handoff(layer: LayerFacts, span: Span) -> bool:
    """Return whether a turn of one person begins after one of another person within a span."""
    if len(set(layer.usernames)) < 2 or span[0] >= span[1]:
        return False
    turn = -((layer.start - span[0]) // layer.shift_length)
    return layer.start + max(turn, 1) * layer.shift_length < span[1]


def _by_local_time(schedule: ScheduleFacts) -> ScheduleFacts:
    return replace(schedule, by_local_time=True)


def _list_people(schedule: ScheduleFacts, span: Span) -> dict[str, list[Span]]:
    """Return when each person is on call by the layers within a span."""
    start, end = span
    spans: dict[str, list[Span]] = {}
    for shift in list_layer_shifts(schedule, start, end):
        spans.setdefault(shift.username, []).append((max(shift.start, start), min(shift.end, end)))
    return {username: merge_spans(found) for username, found in spans.items()}


def _build_problem(
    schedule: ScheduleFacts, layer: LayerFacts, span: Span, checked: Span, moved_by: timedelta, is_minor: bool
) -> Problem:
    when = _describe_span(schedule, span, checked)
    where = _describe_times(schedule, layer, moved_by)
    what = (
        f"{when}the handoffs of layer {layer.name} of {schedule.name} are {where}:"
        " shift_time_in_dst of the schedule is false"
    )
    return Problem(ProblemKind.HANDOFFS_MOVED, *span, what, (schedule,), minor=is_minor)


def _describe_span(schedule: ScheduleFacts, span: Span, checked: Span) -> str:
    """Return the dates of a span; a date is left out if the span reaches to that end of the checked time."""
    zone = get_zone_or_utc(schedule.time_zone)
    since, until = (f"{to_local(moment, zone):%a %d %b %Y}" for moment in span)
    begins = f"from {since} " if span[0] > checked[0] else ""
    return f"{begins}until {until} " if span[1] < checked[1] else begins


def _describe_times(schedule: ScheduleFacts, layer: LayerFacts, moved_by: timedelta) -> str:
    """Return at which local times the handoffs are, or how much later if a day has many of them."""
    first = to_local(layer.start, get_zone_or_utc(schedule.time_zone))
    count = max(DAY // layer.shift_length, 1)
    if count > MAX_TIMES or count * layer.shift_length % DAY:
        direction = "later" if moved_by > timedelta() else "earlier"
        return f"{_format_duration(abs(moved_by))} {direction} than at its start"
    expected = [first + turn * layer.shift_length for turn in range(count)]
    return f"at {_list_times(expected, moved_by)} instead of {_list_times(expected, timedelta())}"


def _list_times(handoffs: list[datetime], moved_by: timedelta) -> str:
    times = sorted((handoff + moved_by).time() for handoff in handoffs)
    texts = [f"{time:%H:%M:%S}" if time.second else f"{time:%H:%M}" for time in times]
    return f"{', '.join(texts[:-1])} and {texts[-1]}" if len(texts) > 1 else texts[0]


def _format_duration(duration: timedelta) -> str:
    hours, rest = divmod(duration, HOUR)
    if not rest:
        return f"{hours} hour{'s' * (hours != 1)}"
    return f"{duration // MINUTE} minutes"
