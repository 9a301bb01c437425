"""What single tools do besides firing, repeating and resolving: tests, silences, forms, and other states."""

from urllib.parse import urlencode

import pytest

from models.domain.enums import AlertType
from pipeline.sources.reading.body import RequestBody
from pipeline.sources.table import SOURCES
from tests.support.offenders import list_offenders
from tests.support.sources import build_request, load

FORM = {"content-type": "application/x-www-form-urlencoded"}
INFO, WARNING, ERROR, CRITICAL = AlertType.INFO, AlertType.WARNING, AlertType.ERROR, AlertType.CRITICAL
ACKNOWLEDGED, RESOLVED = AlertType.ACKNOWLEDGED, AlertType.RESOLVED


def read(kind, body):
    (alert,) = SOURCES[kind].parse(build_request(kind, body))
    return alert


def change(kind, name="fires", **fields):
    return {**load(kind, name).body, **fields}


def test_a_tool_that_sends_forms_has_the_same_alert_as_a_form_and_as_json():
    def check(kind):
        body = {name: str(value) for name, value in load(kind, "fires").body.items()}
        (of_form,) = SOURCES[kind].parse(RequestBody(urlencode(body).encode(), FORM))

        assert of_form == read(kind, body)
        assert (of_form.alert_type, of_form.remarks) == (CRITICAL, ())

    assert (
        list_offenders(check, ["librenms", "uptimerobot", "nodeping", "statuscake", "prtg", "site24x7"]) == []
    )


# What tools send for "Send a test notification".
TESTS = [
    ("librenms", change("librenms", rule_id="000", alert_id="000", uid="000", title="Testing transport")),
    ("dynatrace", change("dynatrace", PID="99999", ProblemID="999")),
    ("dynatrace", change("dynatrace", ProblemTitle="Dynatrace problem notification test run")),
    ("graylog", change("graylog", event_definition_type="notification-test-v1")),
    ("netdata", {"message": "This is a test", "title": "Test Notification", "token": "2b633082"}),
    ("uptrends", change("uptrends", alert_type="Test")),
]


def test_a_test_notification_of_a_tool_opens_nothing():
    def check(case):
        assert read(*case).alert_type is INFO

    assert list_offenders(check, TESTS) == []


@pytest.mark.parametrize(
    ("kind", "body", "level"),
    [
        ("librenms", change("librenms", severity="ok"), INFO),
        ("librenms", change("librenms", state=4), CRITICAL),
        ("sensu_go", load("sensu_go", "fires").body | {"check": {"status": 127}}, ERROR),
        ("pingdom", change("pingdom", importance_level="LOW"), WARNING),
        ("dynatrace", change("dynatrace", ProblemSeverity="RESOURCE_CONTENTION"), WARNING),
        ("dynatrace", change("dynatrace", ProblemSeverity="{ProblemSeverity}"), CRITICAL),
        ("uptimerobot", change("uptimerobot", alertType="3"), WARNING),
        ("site24x7", change("site24x7", STATUS="TROUBLE"), WARNING),
        ("prtg", change("prtg", status="Down (Partial)"), ERROR),
        ("prtg", change("prtg", status="Unusual"), WARNING),
        ("prtg", change("prtg", status="Warning ended (now: Down (Acknowledged))"), ACKNOWLEDGED),
        ("prtg", change("prtg", status="ダウン", colorofstate="#D71920"), CRITICAL),
        ("prtg", change("prtg", status="Avertissement", colorofstate="#ffcb05"), WARNING),
        ("prtg", change("prtg", status="En pausa", colorofstate="#447fc1"), INFO),
        ("prtg", change("prtg", status="Down", colorofstate="#b4cc38"), CRITICAL),
        ("graylog", {**load("graylog", "fires").body, "event": {"priority": 2}}, ERROR),
        ("proxmox", change("proxmox", severity="unknown", fields={"type": "system-mail"}), ERROR),
        ("proxmox", change("proxmox", severity="info", fields={"type": "package-updates"}), INFO),
        ("sumologic", change("sumologic", triggerType="Missing Data"), ERROR),
        ("splunk_legacy", change("splunk_legacy", result={"urgency": "medium"}), WARNING),
    ],
)
def test_a_tool_has_levels_of_its_own(kind, body, level):
    alert = read(kind, body)

    assert (alert.alert_type, alert.remarks) == (level, ())


def test_a_state_of_prtg_in_an_unknown_language_without_a_known_color_is_critical_and_says_so():
    for color in ("", "#123456"):
        alert = read("prtg", change("prtg", status="Nedostupné", colorofstate=color))

        assert (alert.alert_type, [each.code for each in alert.remarks]) == (CRITICAL, ["level_unknown"])


@pytest.mark.parametrize(
    ("severity", "level"),
    [(8, CRITICAL), ("7.0", CRITICAL), (9.5, CRITICAL), (5.3, WARNING), (2, INFO), ("LOW", INFO)],
)
def test_a_finding_has_a_number_or_a_word_as_severity(severity, level):
    body = load("guardduty", "fires").body

    alert = read("guardduty", {**body, "detail": {**body["detail"], "severity": severity}})

    assert (alert.alert_type, alert.remarks) == (level, ())


def test_a_sample_finding_opens_nothing():
    body = load("guardduty", "fires").body

    alert = read("guardduty", {**body, "detail": {**body["detail"], "title": "[SAMPLE] Port probe"}})

    assert alert.alert_type is INFO


def test_a_finding_links_to_the_console_of_its_region():
    (link,) = load("guardduty", "fires").parse_one().urls

    assert link["link_url"] == (
        "https://us-east-1.console.aws.amazon.com/guardduty/home?region=us-east-1"
        "#/findings?fId=49514155ed6b4536b05649a87fc3c05a"
    )


def test_a_silenced_problem_of_sensu_is_a_note_and_its_end_is_none():
    body = load("sensu_go", "note").body
    ended = {**body, "check": {**body["check"], "status": 0}}

    assert (read("sensu_go", body).suppressed, read("sensu_go", ended).alert_type) == (True, RESOLVED)


def test_metrics_of_sensu_are_a_note():
    body = {name: value for name, value in load("sensu_go", "fires").body.items() if name != "check"}

    assert read("sensu_go", body).suppressed


def test_a_certificate_is_no_problem_of_its_monitor():
    monitor, certificate = (load("uptimerobot", name).parse_one() for name in ("fires", "certificate_fires"))

    assert (monitor.entity_id, certificate.entity_id) == ("monitor 777749809", "certificate 777749809")


def test_the_triggers_of_a_monitor_of_sumo_logic_end_alone():
    critical, warning = (load("sumologic", name).parse_one() for name in ("fires", "warning_fires"))

    assert critical.entity_id != warning.entity_id


def test_a_search_without_a_name_is_named_by_its_sid_without_the_time():
    first, again = (
        read("splunk_legacy", change("splunk_legacy", name, search_name=None))
        for name in ("fires", "repeats")
    )

    assert first.entity_id == again.entity_id == "search/scheduler__admin__search__RMD5910f74a8e2d9d5c4"


def test_an_alarm_callback_that_triggered_nothing_is_a_note():
    body = load("graylog", "callback_fires").body

    assert read("graylog", {**body, "check_result": {**body["check_result"], "triggered": False}}).suppressed


def test_a_variable_that_the_tool_did_not_replace_is_no_text():
    alert = read("uptimerobot", change("uptimerobot", alertDetails="*alertDetails*"))

    assert (alert.message, alert.summary) == ("Shop is DOWN", "")


def test_azure_scales_without_an_incident():
    context = {"resourceName": "shop-vmss", "resourceId": "/subscriptions/x/shop-vmss"}

    alert = read("microsoftazure", {"status": "Activated", "operation": "Scale Out", "context": context})

    assert (alert.suppressed, alert.message) == (True, "Scale Out: shop-vmss")


@pytest.mark.parametrize(
    ("name", "level"),
    [
        ("metric_fires", CRITICAL),
        ("classic_fires", CRITICAL),
        ("activity_fires", ERROR),
        ("health_fires", WARNING),
        ("resource_fires", CRITICAL),
        ("log_fires", CRITICAL),
        ("insights_fires", WARNING),
        ("budget_fires", CRITICAL),
    ],
)
def test_the_older_schemas_of_azure_have_their_levels(name, level):
    alert = load("microsoftazure", name).parse_one()

    assert (alert.alert_type, alert.remarks) == (level, ())


def test_a_security_alert_of_azure_has_a_severity_besides_its_level():
    body = load("microsoftazure", "activity_fires").body
    log = body["data"]["context"]["activityLog"]
    log |= {"eventSource": "Security", "level": "Informational", "properties": {"severity": "High"}}

    assert read("microsoftazure", body).alert_type is ERROR
