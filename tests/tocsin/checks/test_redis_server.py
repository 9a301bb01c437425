"""`tocsin check` says which Redis server runs."""

import json
import re
import shutil

import pytest

from runtime.settings import load
from tests.support.processes import find_free_port, start_redis, tocsin
from tocsin.checks.redis_server import find_server
from tocsin.server.embedded_redis import find_program


@pytest.fixture
def describe(home):
    home.mkdir(exist_ok=True)
    return lambda **settings: str(find_server(load({"TOCSIN_HOME": str(home), **settings})))


def test_a_running_embedded_server_is_named_with_its_version_and_program(home, describe):
    with start_redis(home) as keeper:
        text = describe()
        same = describe(TOCSIN_REDIS_URL=f"unix://{keeper.path}")

    program = re.escape(find_program())
    assert re.fullmatch(rf"Redis \(embedded\): (redis|valkey) [\d.]+ \({program}\) runs", text)
    assert same == text.replace("embedded", "of TOCSIN_REDIS_URL")


def test_without_a_server_the_next_one_is_named(home, describe):
    assert describe() == f"Redis (embedded): none runs; Tocsin would start {find_program()}"
    # It only reads.
    assert list(home.iterdir()) == []


def test_a_server_that_does_not_answer_is_reported_without_its_url(describe):
    text = describe(TOCSIN_REDIS_URL=f"redis://:secret@127.0.0.1:{find_free_port()}/0")

    assert text == "Redis (of TOCSIN_REDIS_URL): none answers"


def test_the_command_prints_it(home, world):
    printed = tocsin(home, "check")
    document = json.loads(tocsin(home, "check", "--json").stdout)

    assert printed.stdout.splitlines()[-1].startswith("Redis (embedded): ")
    assert document["redis"].keys() == {"is_running", "is_embedded", "name", "version", "program"}
    assert shutil.which(document["redis"]["program"]) is not None
