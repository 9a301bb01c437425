"""Bodies whose fields have other names than those of our pages."""

import pytest

from models.domain.enums import AlertType
from pipeline.sources.table import SOURCES
from tests.support.sources import build_request, load


def read(kind, body):
    (alert,) = SOURCES[kind].parse(build_request(kind, body))
    return alert


def to_camel(name):
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)


@pytest.mark.parametrize("kind", ["datadog", "elastic"])
@pytest.mark.parametrize("name", ["fires", "resolves", "other"])
def test_names_of_fields_can_be_in_camel_case(kind, name):
    body = load(kind, name).body
    camel = {to_camel(field): value for field, value in body.items()}

    alert, other = read(kind, body), read(kind, camel)

    assert camel.keys() != body.keys()
    assert (other.entity_id, other.alert_type, other.message, other.summary, other.urls, other.remarks) == (
        alert.entity_id,
        alert.alert_type,
        alert.message,
        alert.summary,
        alert.urls,
        alert.remarks,
    )


def test_an_alert_of_watcher_is_named_by_its_id():
    body = {
        "watch_id": "errors",
        "execution_time": "2026-03-01T02:09:35.000Z",
        "payload": {"hits": {"total": 9}},
    }

    alert = read("elastic", body)
    later = read("elastic", {**body, "execution_time": "2026-03-01T02:14:35.000Z"})

    assert (alert.message, alert.alert_type, alert.remarks) == ("errors", AlertType.CRITICAL, ())
    assert alert.entity_id == later.entity_id == "watch/errors"


def test_a_checkmk_script_may_send_the_variables_of_its_notification():
    context = {
        "NOTIFY_HOSTNAME": "web-1",
        "NOTIFY_SERVICEDESC": "Disk /",
        "NOTIFY_NOTIFICATIONTYPE": "PROBLEM",
        "NOTIFY_SERVICESTATE": "CRIT",
        "NOTIFY_SERVICEOUTPUT": "98 % used",
        "NOTIFY_WHAT": "SERVICE",
        "NOTIFY_HOSTSTATE": "UP",
    }
    plain = {name.removeprefix("NOTIFY_"): value for name, value in context.items()}
    host = {"HOSTNAME": "web-1", "NOTIFICATIONTYPE": "RECOVERY", "WHAT": "HOST", "HOSTSTATE": "UP"}
    usual = read(
        "checkmk", load("checkmk", "fires").body | {"host_name": "web-1", "service_description": "Disk /"}
    )

    assert read("checkmk", context).entity_id == read("checkmk", plain).entity_id == usual.entity_id
    assert read("checkmk", context).message == "web-1: Disk / is CRIT: 98 % used"
    assert read("checkmk", context).alert_type is AlertType.CRITICAL
    assert read("checkmk", {**plain, "NOTIFICATIONTYPE": "RECOVERY", "SERVICESTATE": "OK"}).alert_type is (
        AlertType.RESOLVED
    )
    assert (read("checkmk", host).entity_id, read("checkmk", host).alert_type) == (
        "web-1/",
        AlertType.RESOLVED,
    )
