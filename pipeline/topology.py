"""The pipeline: the list of its stages, and the places of possible queue splits."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from models.domain.effects import Decision
from pipeline.alert import Alert
from pipeline.stages import dedupe, incident, normalize, notify, route, rules


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of the pipeline.

    `split_after`: whether operators can give the stages after it a queue of their own
    (TOCSIN_PIPELINE_QUEUES). `reads_past_incidents`: whether the stage needs the results of earlier alerts
    to decide about this one. Such a stage runs in the last segment, where they are known, for any queue
    splits. `queue`: the queue that begins with this stage, if one does.
    """

    name: str
    # Its state is that of a service's lane or, before routing, also that of a router's lane.
    decide: Callable[[Alert, Any, datetime], Decision]
    queue: str = ""
    split_after: bool = False
    reads_past_incidents: Callable[[Alert, Any], bool] | None = None


# The order of the pipeline. dedupe, incident and notify read and write the same rows. So they run in one
# transaction under the service's lock and are never split.
STAGES = (
    Stage("normalize", normalize.decide, "pipeline.normalize", split_after=True),
    Stage("route", route.decide, "pipeline.route", split_after=True),
    Stage(
        "rules",
        rules.decide,
        "pipeline.rules",
        split_after=True,
        reads_past_incidents=rules.reads_past_incidents,
    ),
    Stage("dedupe", dedupe.decide, "pipeline.incident"),
    Stage("incident", incident.decide),
    Stage("notify", notify.decide),
)


@dataclass(frozen=True, slots=True)
class Segment:
    """The stages between two queue splits: one queue, one actor.

    `next_segment` is the name of the segment after it, None for the last one.
    """

    stages: tuple[Stage, ...]
    next_segment: str | None

    @property
    def name(self) -> str:
        return self.stages[0].name

    @property
    def queue(self) -> str:
        """Return the name of its queue and of its actor."""
        return self.stages[0].queue

    @property
    def is_whole(self) -> bool:
        """Return whether it has all stages: the pipeline is not split."""
        return self.stages == STAGES

    @property
    def stage_names(self) -> tuple[str, ...]:
        """Return the names of its stages.

        An alert that is pending at one of them is pending for this segment.
        """
        return tuple(stage.name for stage in self.stages)

    def get_stages_from(self, name: str | None) -> tuple[Stage, ...]:
        """Return the stages from the named one to the segment's end.

        The named stage may belong to an earlier segment.
        """
        if name is None:
            return self.stages
        names = [stage.name for stage in STAGES]
        return STAGES[names.index(name) : names.index(self.stages[-1].name) + 1]


# The stage at which a deferred alert continues after maintenance: its rules have already run.
AFTER_MAINTENANCE = "dedupe"


def build_segments(split_after: Iterable[str] = ()) -> tuple[Segment, ...]:
    """Return the pipeline, split after the named stages. ValueError: a named stage does not allow a split."""
    requested = set(split_after)
    allowed = {stage.name for stage in STAGES if stage.split_after}
    if requested - allowed:
        raise ValueError(
            f"the pipeline cannot be split after {', '.join(sorted(requested - allowed))};"
            f" possible: {', '.join(stage.name for stage in STAGES if stage.split_after)}"
        )
    groups: list[list[Stage]] = [[]]
    for stage in STAGES:
        groups[-1].append(stage)
        if stage.name in requested:
            groups.append([])
    names = [group[0].name for group in groups] + [None]
    return tuple(Segment(tuple(group), names[i + 1]) for i, group in enumerate(groups))


# The part of the pipeline that runs in the lane of a router. Its alerts continue in the lanes of services.
ROUTER_SEGMENT, _service_segment = build_segments(["route"])
AFTER_ROUTING = _service_segment.name


def find_segment(pipeline: Iterable[Segment], stage: str) -> Segment:
    """Return the segment of the pipeline that a stage belongs to."""
    return next(segment for segment in pipeline if stage in segment.stage_names)
