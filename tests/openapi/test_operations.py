"""Each operation keeps what its description says: schemathesis, with all its checks."""

import os

import pytest

from tests.support import stores
from tests.support.contract.requests import BODIES
from tests.support.openapi.driver import Driver, Plan
from tests.support.openapi.judge import JSON, XML
from web.routes import ROUTES

pytestmark = pytest.mark.schemathesis

DOCUMENTED = [route for route in ROUTES if route.documented]

SEED = int(os.environ.get("SCHEMATHESIS_SEED", "1"))
EXAMPLES = int(os.environ.get("SCHEMATHESIS_EXAMPLES", "3"))
EVERY = ("examples", "coverage", "fuzzing")

# The scheme words of contract 1.1. Each operation is driven in both profiles. The case of a word must not
# matter, so the operations take turns.
WORDS = (("Bearer", "Token"), ("bearer", "token"))


def choose_words(place: int) -> tuple[str, ...]:
    """Return the words for an operation. The profiles use the same tables: on PostgreSQL, they take turns."""
    words = WORDS[place % 2]
    return (words[place // 2 % 2],) if stores.SERVER else words


PAIRS = [(route, word) for place, route in enumerate(DOCUMENTED) for word in choose_words(place)]

# The profiles read bodies in the same way, and XML takes as long as JSON.
FORMATS = {"bearer": (JSON, XML), "token": (JSON,)}


@pytest.fixture
def drive(app, ask, world, samples):
    document = ask("GET", "/api/openapi.json").json

    def find(route, word):
        driver = Driver(app, document, samples.ids, f"{word} {world.tokens['alice']}")
        sample = samples.bodies.get(BODIES.get((route.method, route.path)) or "")
        return driver.find(route, sample, Plan(EVERY, FORMATS[word.lower()], EXAMPLES, SEED))

    return find


@pytest.mark.parametrize(
    ("route", "word"), PAIRS, ids=[f"{word} {route.method} {route.path}" for route, word in PAIRS]
)
def test_an_operation_keeps_its_description(drive, route, word):
    found = drive(route, word)

    assert not found, "\n".join(map(str, found))
