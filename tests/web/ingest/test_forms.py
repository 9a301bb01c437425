"""Forms of the generic form and of a mapping, and fields of other forms; the answer says what was assumed."""

import json
from contextlib import suppress

import pytest

from bench.siege.attacks.forms import build_requests
from models.domain.enums import AlertType
from models.tables.events import Event, Receipt
from models.tables.services import SourceSetup
from pipeline.sources.reading.body import BadBody
from pipeline.sources.reading.forms import read_form
from tests.support.web.server import run_server
from web.ingest import events
from web.ingest.fast_path import FastPath
from workers.alerts import process_lane

__all__ = ["run_server"]

FORM = "application/x-www-form-urlencoded"
FIELDS = b"message=Disk+full&alert_type=error&entity_id=db1"
PARTS = (
    b'--x\r\nContent-Disposition: form-data; name="message"\r\n\r\nDisk full\r\n'
    b'--x\r\nContent-Disposition: form-data; name="alert_type"\r\n\r\nerror\r\n'
    b'--x\r\nContent-Disposition: form-data; name="entity_id"\r\n\r\ndb1\r\n'
    b'--x\r\nContent-Disposition: form-data; name="log"; filename="a"\r\n\r\nsecret\r\n--x--\r\n'
)


@pytest.fixture
def post(run_server, app, world):
    """post(body, kind, source): the status, the answer, and the event of a request through a socket."""
    server = run_server()
    server.app = FastPath(app, events.commits, events.large_bodies)

    def post(body, kind="application/json", source="generic"):
        key = world.integration.integration_key
        paths = {"event": f"/api/events/{key}/"}
        path = paths.get(source, f"/api/integration/{source}/{key}/")
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        answer = server.ask("POST", path, raw, **{"Content-Type": kind})
        process_lane.run(world.service.id)
        event = Event.select().order_by(Event.id.desc()).first()
        return answer.status, json.loads(answer.text), event

    return post


@pytest.mark.parametrize("source", ["generic", "event", "json"])
@pytest.mark.parametrize(
    ("body", "kind"),
    [(FIELDS, FORM), (FIELDS, f"{FORM}; charset=utf-8"), (PARTS, "multipart/form-data; boundary=x")],
)
def test_a_form_is_an_alert(post, source, body, kind):
    status, answer, event = post(body, kind, source)

    assert status in (200, 201)
    assert (event.message, event.alert_type, event.entity_id) == ("Disk full", AlertType.ERROR, "db1")
    assert "assumed" not in answer
    assert b"secret" not in Receipt.get().body


def test_a_mapping_reads_the_fields_of_a_form(post, world, now):
    mapping = {"message": "check.name", "entity_id": ["host"]}
    SourceSetup.create(integration=world.integration, mapping=mapping, updated_at=now)

    _, _, event = post(b"check.name=Queue&host=q1", FORM, "json")

    assert (event.message, event.entity_id) == ("Queue", "q1")


def test_json_in_a_field_is_decoded(post):
    _, _, event = post(b'message=m&payload={"host":"db1"}&urls=["https://example.org"]', FORM)

    assert event.alert["payload"] == {"host": "db1"}


def test_json_that_is_named_a_form_stays_json(post):
    assert post({"message": "a & b = c"}, FORM)[2].message == "a & b = c"


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"&".join(b"f%d=1" % number for number in range(101)), FORM),
        (b"&" * 100_000, FORM),
        (b"", FORM),
        (b"host=db1", FORM),
        (b"--x\r\nbroken", "multipart/form-data; boundary=x"),
        (b"--x\r\n" * 50_000, "multipart/form-data; boundary=x"),
    ],
)
def test_a_form_that_is_no_alert_is_refused(post, body, kind):
    assert post(body, kind)[0] == 400
    assert not Receipt.select().exists()


def test_the_costly_forms_of_the_siege_need_little_work():
    """Each is accepted or refused with less work than the parse of a JSON body of the same size may need."""
    for request in build_requests("/"):
        with suppress(BadBody):
            read_form(request.body, request.headers["Content-Type"])


def test_other_tools_take_no_forms(post):
    assert post(FIELDS, FORM, "zabbix")[0] == 400


@pytest.mark.parametrize("source", ["generic", "event"])
@pytest.mark.parametrize(
    ("body", "message", "level"),
    [
        ({"title": "Disk full"}, "Disk full", "info"),
        ({"title": "Disk full", "severity": "High"}, "Disk full", "error"),
        ({"message": "m", "level": "warning"}, "m", "warning"),
        ({"message": "m", "status": "firing"}, "m", "critical"),
        ({"message": "m", "severity": "critical", "state": "ok"}, "m", "resolved"),
        ({"title": "t", "priority": "P2"}, "t", "error"),
        ({"message": "m", "status": "acknowledged"}, "m", "acknowledged"),
    ],
)
def test_fields_of_other_forms_are_read_and_the_answer_says_so(post, source, body, message, level):
    _, answer, event = post(body, source=source)

    assert (event.message, AlertType(event.alert_type).name.lower()) == (message, level)
    assert len(answer["assumed"]) == ("title" in body) + (level != "info")
    assert ("title" in answer["assumed"][0]) == ("title" in body)


@pytest.mark.parametrize(
    "body",
    [
        {"message": "m"},
        {"message": "m", "alert_type": "info", "severity": "critical"},
        {"message": "m", "title": "t"},
        {"message": "m", "priority": "P1"},
        {"message": "m", "severity": "loud"},
        {"message": "m", "status": {"a": 1}, "level": 5},
    ],
)
def test_a_body_that_has_its_own_fields_is_read_as_before(post, body):
    _, answer, event = post(body)

    assert (event.message, event.alert_type) == ("m", AlertType.INFO)
    assert set(answer) == {"message", "trace_id"}
