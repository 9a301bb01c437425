"""Any JSON is parsed or refused with its field, and what is parsed can be stored."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.sources import opsgenie, pagerduty, victorops
from pipeline.sources.reading.body import BadBody, RequestBody
from pipeline.sources.table import SOURCES

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
# The fields that the sources read, so that most bodies reach all of their code.
NAMES = {
    pagerduty.EXTENSION: (
        "event_action", "event_type", "dedup_key", "incident_key", "payload", "links", "images", "contexts",
        "client", "client_url", "description",
    ),
    opsgenie.EXTENSION: ("action", "alias", "message", "description", "priority", "note", "tags"),
    victorops.EXTENSION: (
        "message_type", "entity_id", "entity_display_name", "state_message", "state_start_time", "ack_msg",
    ),
}  # fmt: skip
ACTIONS = {
    pagerduty.EXTENSION: {"event_action": "trigger", "payload": {"summary": "m"}},
    opsgenie.EXTENSION: {"action": "create", "message": "m"},
    victorops.EXTENSION: {"message_type": "CRITICAL"},
}


@pytest.mark.parametrize("source", NAMES)
@settings(deadline=None)
@given(data=st.data())
def test_any_values_of_the_fields_are_parsed_or_refused(source, data):
    sent = data.draw(st.dictionaries(st.sampled_from(NAMES[source]), VALUES))
    body = {**ACTIONS[source], **sent} if data.draw(st.booleans()) else sent
    try:
        (parsed,) = SOURCES[source].parse(RequestBody(json.dumps(body).encode()))
    except BadBody:
        return

    assert parsed.message
    for text in (parsed.message, parsed.summary, parsed.entity_id or "", parsed.incident_note):
        text.encode()


@pytest.mark.parametrize("source", NAMES)
def test_an_alert_has_the_same_entity_when_it_fires_and_ends_and_two_problems_differ(source):
    names = {pagerduty.EXTENSION: "dedup_key", opsgenie.EXTENSION: "alias", victorops.EXTENSION: "entity_id"}
    ends = {
        pagerduty.EXTENSION: {"event_action": "resolve"},
        opsgenie.EXTENSION: {"action": "close"},
        victorops.EXTENSION: {"message_type": "RECOVERY"},
    }

    def find_entity(change, name):
        body = {**ACTIONS[source], **change, names[source]: name}
        return SOURCES[source].parse(RequestBody(json.dumps(body).encode()))[0].entity_id

    assert find_entity({}, "a") == find_entity(ends[source], "a") == "a"
    assert find_entity({}, "b") != "a"
