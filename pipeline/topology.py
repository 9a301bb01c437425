"""An alert's road: the one list of its stages, and where the road may be cut into queues."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from models.domain.effects import Decision
from pipeline.alert import Alert
from pipeline.lane_state import LaneState
from pipeline.stages import dedupe, incident, normalize, notify, route, rules


@dataclass(frozen=True, slots=True)
class Stage:
    """`cut_after`: whether operators may give what follows a queue of its own (TOCSIN_PIPELINE_QUEUES).

    `looks_back`: whether the stage needs to know what became of earlier alerts to decide about this one.
    It then decides in the last segment, where that is known, wherever the road is cut.
    """

    name: str
    decide: Callable[[Alert, LaneState, datetime], Decision]
    split_after: bool = False
    reads_history: Callable[[Alert, LaneState], bool] | None = None


# The order is the road. dedupe, incident and notify read and write the same rows, so they are one
# transaction under the service's lock and never parted.
STAGES = (
    Stage("normalize", normalize.decide, split_after=True),
    Stage("route", route.decide, split_after=True),
    Stage("rules", rules.decide, split_after=True, reads_history=rules.reads_history),
    Stage("dedupe", dedupe.decide),
    Stage("incident", incident.decide),
    Stage("notify", notify.decide),
)


@dataclass(frozen=True, slots=True)
class Segment:
    """The stages between two cuts: one queue, one actor. `then` is the next segment's name, if any."""

    stages: tuple[Stage, ...]
    next_segment: str | None

    @property
    def name(self) -> str:
        return self.stages[0].name

    @property
    def queue(self) -> str:
        return f"pipeline.{self.name}"

    @property
    def stage_names(self) -> tuple[str, ...]:
        """The names of its stages: what waits at any of them waits for this segment."""
        return tuple(stage.name for stage in self.stages)

    def get_stages_from(self, name: str | None) -> tuple[Stage, ...]:
        """The stages up to the segment's end, from the named one, which may lie before the segment."""
        if name is None:
            return self.stages
        names = [stage.name for stage in STAGES]
        return STAGES[names.index(name) : names.index(self.stages[-1].name) + 1]


# Where an alert goes on that a router has sent to an integration.
AFTER_ROUTING = "rules"
# And where one does that maintenance kept back, when that is over: its rules have had their say.
AFTER_MAINTENANCE = "dedupe"


def build_segments(split_after: Iterable[str] = ()) -> tuple[Segment, ...]:
    """The road, cut after the named stages. ValueError names a stage that may not be cut after."""
    requested = set(split_after)
    allowed = {stage.name for stage in STAGES if stage.split_after}
    if requested - allowed:
        raise ValueError(
            f"the road cannot be cut after {', '.join(sorted(requested - allowed))};"
            f" possible: {', '.join(stage.name for stage in STAGES if stage.split_after)}"
        )
    groups: list[list[Stage]] = [[]]
    for stage in STAGES:
        groups[-1].append(stage)
        if stage.name in requested:
            groups.append([])
    names = [group[0].name for group in groups] + [None]
    return tuple(Segment(tuple(group), names[i + 1]) for i, group in enumerate(groups))


def find_segment(pipeline: Iterable[Segment], stage: str) -> Segment:
    """The segment of a road that a stage belongs to."""
    return next(segment for segment in pipeline if stage in segment.stage_names)
