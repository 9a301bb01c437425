"""The one list of stages holds together."""

import itertools

import pytest

from pipeline.topology import STAGES, segments


def test_stages_have_names_of_their_own():
    assert len({stage.name for stage in STAGES}) == len(STAGES)


@pytest.mark.parametrize(
    "cuts",
    [
        cuts
        for n in range(4)
        for cuts in itertools.combinations([stage.name for stage in STAGES if stage.cut_after], n)
    ],
)
def test_however_it_is_cut_the_road_has_every_stage_once_in_its_order(cuts):
    parts = segments(cuts)

    assert [stage for part in parts for stage in part.stages] == list(STAGES)
    assert [part.then for part in parts] == [*(part.name for part in parts[1:]), None]


@pytest.mark.parametrize("stage", ["dedupe", "incident", "notify", "nonsense"])
def test_what_is_one_transaction_cannot_be_cut(stage):
    with pytest.raises(ValueError, match="cannot be cut after"):
        segments([stage])
