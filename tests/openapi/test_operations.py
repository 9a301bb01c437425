"""Each operation keeps what its description says: schemathesis, with all its checks."""

import os

import pytest

from tests.support.contract.requests import BODIES
from tests.support.openapi.driver import Driver, Plan
from tests.support.openapi.judge import JSON, XML
from web.routes import ROUTES

pytestmark = pytest.mark.schemathesis

DOCUMENTED = [route for route in ROUTES if route.documented]

SEED = int(os.environ.get("SCHEMATHESIS_SEED", "1"))
EXAMPLES = int(os.environ.get("SCHEMATHESIS_EXAMPLES", "3"))
EVERY = ("examples", "coverage", "fuzzing")

# The scheme words of contract 1.1, with phases and formats of bodies for each. Their case must not matter.
WORDS = {
    "Bearer": (EVERY, (JSON, XML)),
    "Token": (EVERY, (JSON,)),
    "bearer": (("examples",), (JSON,)),
    "token": (("examples",), (JSON,)),
}


@pytest.fixture
def drive(app, ask, world, samples):
    document = ask("GET", "/api/openapi.json").json

    def find(route, word):
        driver = Driver(app, document, samples.ids, f"{word} {world.tokens['alice']}")
        sample = samples.bodies.get(BODIES.get((route.method, route.path)) or "")
        return driver.find(route, sample, Plan(*WORDS[word], EXAMPLES, SEED))

    return find


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("route", DOCUMENTED, ids=lambda route: f"{route.method} {route.path}")
def test_an_operation_keeps_its_description(drive, route, word):
    found = drive(route, word)

    assert [str(finding) for finding in found] == []
