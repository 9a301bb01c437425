"""The one list of stages holds together."""

import itertools

import pytest

from pipeline.topology import STAGES, build_segments


def test_stages_have_names_of_their_own():
    assert len({stage.name for stage in STAGES}) == len(STAGES)


@pytest.mark.parametrize(
    "queue_splits",
    [
        queue_splits
        for n in range(4)
        for queue_splits in itertools.combinations([stage.name for stage in STAGES if stage.split_after], n)
    ],
)
def test_however_it_is_cut_the_road_has_every_stage_once_in_its_order(queue_splits):
    segment_parts = build_segments(queue_splits)

    assert [stage for segment_part in segment_parts for stage in segment_part.stages] == list(STAGES)
    assert [segment_part.next_segment for segment_part in segment_parts] == [
        *(segment_part.name for segment_part in segment_parts[1:]),
        None,
    ]


@pytest.mark.parametrize("stage", ["dedupe", "incident", "notify", "nonsense"])
def test_what_is_one_transaction_cannot_be_cut(stage):
    with pytest.raises(ValueError, match="cannot be split after"):
        build_segments([stage])
