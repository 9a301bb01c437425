"""Large bodies are parsed one after the other, and accounts take turns."""

import pytest

from tests.support.web.places import held_elsewhere
from web.http.limits.places import places
from web.ingest.large_bodies import DEAR_BYTES, LARGE_BYTES, LargeBodies, TooManyError


def test_large_bodies_take_turns_and_small_ones_pass_at_once():
    bodies = LargeBodies()

    with held_elsewhere(bodies._turn, "other"):
        with pytest.raises(TooManyError), bodies.take_turn(LARGE_BYTES + 1, "own", 0.0):
            pass
        with bodies.take_turn(LARGE_BYTES, "own", 0.0):
            pass
    with bodies.take_turn(LARGE_BYTES + 1, "own", 0.0):
        pass


def test_a_body_of_middle_size_needs_a_place_like_other_dear_work():
    bodies = LargeBodies()

    with held_elsewhere(places, "other", "third"):
        with pytest.raises(TooManyError), bodies.take_turn(DEAR_BYTES + 1, "own", 0.0):
            pass
        with bodies.take_turn(DEAR_BYTES, "own", 0.0):
            pass
