"""A pipeline with another stage in the place of dedupe."""

from models.domain.values import replace
from pipeline.topology import build_segments


def build_segments_with(decide):
    (segment_of_all,) = build_segments()
    stages = tuple(replace(s, decide=decide) if s.name == "dedupe" else s for s in segment_of_all.stages)
    return (replace(segment_of_all, stages=stages),)
