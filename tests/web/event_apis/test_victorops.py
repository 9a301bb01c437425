"""The REST endpoint of VictorOps: senders need another URL and the key of an integration."""

from datetime import UTC, datetime

import pytest

from models.domain.enums import AlertType
from models.tables.events import Event
from models.tables.incidents import Incident
from workers.alerts import process_lane

ENDPOINT = "/integrations/generic/20131114/alert"
BODY = {"entity_id": "db1/disk", "entity_display_name": "Disk of db1", "state_message": "/var at 97 %"}


@pytest.fixture
def send(ask, world):
    def send(kind, rest="/database", **values):
        path = f"{ENDPOINT}/{world.integration.integration_key}{rest}"
        answer = ask("POST", path, {"message_type": kind, **BODY, **values}, who=None)
        process_lane.run(world.service.id)
        return answer

    return send


@pytest.mark.parametrize("rest", ["", "/", "/database", "/database/", "/a/b"])
def test_a_critical_alert_opens_an_incident_that_a_recovery_resolves(send, rest):
    opened = send("CRITICAL", rest)
    send("RECOVERY", rest)

    assert (opened.status_code, opened.json) == (200, {"result": "success", "entity_id": "db1/disk"})
    assert [(row.title, row.summary, row.status) for row in Incident.select()] == [
        ("Disk of db1", "/var at 97 %", 3)
    ]


@pytest.mark.parametrize(
    ("kind", "level"),
    [("CRITICAL", 3), ("warning", 1), ("INFO", 0), ("ACKNOWLEDGEMENT", 4), ("RECOVERY", 5), ("PROBLEM", 3)],
)
def test_the_type_is_the_level_and_an_unknown_one_is_critical(send, kind, level):
    send(kind)

    assert Event.get().alert_type == AlertType(level)


def test_the_answer_has_the_entity_that_tocsin_makes_for_an_alert_without_one(send):
    made = send("CRITICAL", entity_id=None).json["entity_id"]

    assert Event.get().entity_id == made


@pytest.mark.parametrize(
    ("seconds", "at"),
    [(1_700_000_000, datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)), ("soon", None), (1e30, None)],
)
def test_the_time_of_the_sender_is_kept(send, seconds, at):
    send("CRITICAL", state_start_time=seconds)

    assert Event.get().source_at == at


def test_a_body_without_a_type_is_refused_with_its_reason(send):
    answer = send("")

    assert answer.status_code == 400
    assert answer.json == {"result": "failure", "message": "message_type may not be blank"}


def test_an_unknown_key_is_refused(ask, world):
    answer = ask("POST", f"{ENDPOINT}/{world.tokens['alice']}/a", {"message_type": "CRITICAL"}, who=None)

    assert answer.status_code == 404
