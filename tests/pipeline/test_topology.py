"""The list of stages is consistent."""

import itertools

import pytest

from pipeline.topology import STAGES, build_segments


def test_stage_names_are_unique():
    assert len({stage.name for stage in STAGES}) == len(STAGES)


@pytest.mark.parametrize(
    "queue_splits",
    [
        queue_splits
        for n in range(4)
        for queue_splits in itertools.combinations([stage.name for stage in STAGES if stage.split_after], n)
    ],
)
def test_a_split_pipeline_has_every_stage_once_in_order(queue_splits):
    segments = build_segments(queue_splits)

    assert [stage for segment in segments for stage in segment.stages] == list(STAGES)
    assert [segment.next_segment for segment in segments] == [
        *(segment.name for segment in segments[1:]),
        None,
    ]


@pytest.mark.parametrize("stage", ["dedupe", "incident", "notify", "nonsense"])
def test_stages_of_one_transaction_cannot_be_split(stage):
    with pytest.raises(ValueError, match="cannot be split after"):
        build_segments([stage])
