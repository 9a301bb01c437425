"""`tocsin send` posts the example of a tool; every tool with a page has one."""

import json

import pytest
from click.testing import CliRunner

from models.tables.events import Event, Receipt
from models.tables.services import Integration
from pipeline.sources import table
from tests.support.processes import find_free_port
from tests.support.web.server import run_server
from tests.web.conftest import app
from tocsin.commands.alerts.send import EXAMPLES, load_example, send
from tocsin.commands.alerts.source_guides import GUIDES
from tocsin.commands.kinds import EVENT_APIS, TOOLS
from web.ingest import events
from web.ingest.fast_path import FastPath
from workers.alerts import process_lane

__all__ = ["app", "run_server"]


@pytest.fixture
def served(run_server, app):
    server = run_server()
    server.app = FastPath(app, events.commits, events.large_bodies)
    return server


def call(*words, **environment):
    return CliRunner().invoke(send, words, env=environment)


@pytest.mark.parametrize("kind", sorted(GUIDES))
def test_the_example_of_a_tool_becomes_an_alert(served, world, kind):
    key = Integration.get_by_id(world.integration.id).integration_key
    port = str(served.port)

    done = call("--as", kind, "--key", key, TOCSIN_PORT=port, TOCSIN_HOST="127.0.0.1")
    process_lane.run(world.service.id)

    assert (done.exit_code, json.loads(done.output)["message"]) == (0, "success")
    assert Receipt.get().source == kind
    assert [event.stage for event in Event.select()] == [""]


def test_the_guide_and_the_example_are_shown_without_sending():
    shown = call("--as", "grafana", "--show")

    assert shown.output.startswith("1. Open Alerting, Contact points")
    assert json.loads(shown.output[shown.output.index("{\n") :]) == load_example("grafana")["body"]


def test_a_wrong_key_is_refused():
    assert call("--as", "grafana", "--key", "x").exit_code == 2


def test_no_answer_is_an_error():
    key = "00000000-0000-4000-8000-000000000000"
    done = call("--as", "grafana", "--key", key, TOCSIN_PORT=str(find_free_port()))

    assert (done.exit_code, "no answer of web" in done.output) == (1, True)


def test_every_guide_is_of_an_application_and_has_an_example():
    examples = {path.name.removesuffix(".json") for path in EXAMPLES.iterdir()}
    assert set(GUIDES) <= set(TOOLS) & examples


def test_the_commands_know_the_same_tools_as_the_pipeline():
    assert set(TOOLS) <= set(table.SOURCES)
    assert {source.extension for source in table.EVENT_APIS} == set(EVENT_APIS)


def test_a_tool_without_a_form_of_its_own_sends_the_generic_example():
    assert load_example("no-such-tool") == load_example("generic")


def test_an_unknown_tool_is_compared_with_the_known_ones():
    refused = call("--as", "graphana", "--show")

    assert refused.exit_code == 2
    assert "there is no tool graphana; did you mean grafana?" in refused.output


def test_an_event_api_names_its_page():
    refused = call("--as", "pagerduty", "--show")

    assert (refused.exit_code, "docs/sources/pagerduty.md" in refused.output) == (2, True)
