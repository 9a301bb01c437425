"""Cases that normalizers of other products get wrong."""

import json

import pytest
from werkzeug.test import EnvironBuilder

from models.domain.enums import AlertType
from pipeline.sources.reading.body import BadBody, RequestBody
from pipeline.sources.reading.fields import join_entity
from pipeline.sources.table import SOURCES
from tests.support.sources import build_request, load


def parse(kind, body, headers=None):
    return SOURCES[kind].parse(build_request(kind, body, headers))


def parse_one(kind, body, headers=None):
    (alert,) = parse(kind, body, headers)
    return alert


def test_each_alert_of_a_grafana_group_has_its_own_status():
    fired, _, ended = load("grafana", "group").parse()

    assert (fired.alert_type, ended.alert_type) == (AlertType.CRITICAL, AlertType.RESOLVED)


def test_the_entity_of_a_grafana_alert_does_not_depend_on_the_size_of_its_group():
    body = load("grafana", "fires").body
    many = [{**body["alerts"][0], "fingerprint": f"{number:016x}"} for number in range(50)]

    assert len({alert.entity_id for alert in parse("grafana", {**body, "alerts": many})}) == 50
    assert parse("grafana", {**body, "alerts": many})[7].entity_id == f"{7:016x}"


def test_a_grafana_alert_has_its_links():
    links = [link["link_text"] for link in load("grafana", "fires").parse_one().urls]

    assert links == ["Runbook", "Dashboard", "Panel", "Silence", "Rule"]


@pytest.mark.parametrize("kind", ["grafana", "prometheus"])
def test_alerts_that_the_source_left_out_are_recorded(kind):
    alert = parse_one(kind, {**load(kind, "fires").body, "truncatedAlerts": 7})

    assert [str(reason) for reason in alert.remarks] == ["The source left out 7 more alerts of this group."]


def test_no_data_of_the_older_grafana_form_is_an_error():
    assert load("grafana", "legacy_repeats").parse_one().alert_type is AlertType.ERROR


def test_the_fields_of_a_large_group_do_not_multiply():
    body = load("grafana", "fires").body
    group = {**body, "commonLabels": {"text": "x" * 100_000}, "alerts": [body["alerts"][0]] * 5_000}

    assert "commonLabels" not in parse("grafana", group)[0].payload


def test_the_same_service_of_two_hosts_is_two_problems():
    first, second = load("icinga", "fires").parse_one(), load("icinga", "other").parse_one()

    assert first.entity_id != second.entity_id


def test_a_slash_in_a_host_makes_no_other_service():
    service = {"host_name": "web", "service_description": "disk", "state": "CRITICAL"}
    host = {"host_name": "web/disk", "state": "DOWN"}

    assert parse_one("nagios", service).entity_id != parse_one("nagios", host).entity_id


def test_parts_of_an_identifier_cannot_be_confused():
    assert len({join_entity("a/b", "c"), join_entity("a", "b/c"), join_entity("a", "b", "c")}) == 3


def test_cloudwatch_alarms_of_the_same_name_differ_by_account_and_region():
    alarm = {"AlarmName": "CPU", "NewStateValue": "ALARM", "AWSAccountId": "1", "Region": "EU (Ireland)"}
    arns = [f"arn:aws:cloudwatch:{region}:{account}:alarm:CPU" for region, account in REGIONS]
    alerts = [
        parse_one("cloudwatch_v2", {**alarm, "AlarmArn": arn, "AWSAccountId": arn.split(":")[4]})
        for arn in arns
    ]

    assert len({alert.entity_id for alert in alerts}) == 3


REGIONS = (("eu-west-1", "1"), ("eu-west-2", "1"), ("eu-west-1", "2"))


def test_the_reason_of_a_cloudwatch_alarm_does_not_identify_it():
    first = load("cloudwatch_v2", "fires").parse_one()

    assert load("cloudwatch_v2", "repeats").parse_one().entity_id == first.entity_id
    assert first.alert_type is AlertType.CRITICAL


def test_the_link_that_confirms_a_subscription_is_shown_without_its_token_in_the_payload():
    alert = load("cloudwatch_v2", "note").parse_one()

    assert alert.urls[0]["link_text"] == "Confirm the subscription"
    assert "Token" not in alert.payload


def test_a_new_relic_issue_needs_no_source_and_its_values_can_be_lists():
    body = {"issueId": ["a-1"], "state": "ACTIVATED", "priority": ["HIGH"], "title": ["Slow"]}
    alert = parse_one("newrelic", body)

    assert (alert.entity_id, alert.alert_type, alert.message) == ("a-1", AlertType.ERROR, "Slow")


@pytest.mark.parametrize("tags", [None, "", "env:prod", ["env:prod"], 7])
def test_tags_of_datadog_have_any_form(tags):
    assert parse_one("datadog", {**load("datadog", "fires").body, "tags": tags}).entity_id


def test_datadogs_default_payload_resolves_by_its_title():
    assert load("datadog", "default_resolves").parse_one().entity_id == "[on {host:web-1}] CPU is high"


def test_datadog_can_send_a_form():
    form = b"alert_id=12&alert_scope=host%3Aweb-1&alert_transition=Warn&title=CPU"
    headers = {"content-type": "application/x-www-form-urlencoded; charset=utf-8"}
    (alert,) = SOURCES["datadog"].parse(RequestBody(form, headers))

    assert (alert.entity_id, alert.alert_type) == ("12/host:web-1", AlertType.WARNING)


def test_a_form_with_too_many_fields_is_refused():
    form = "&".join(f"f{number}=1" for number in range(101)).encode()

    with pytest.raises(BadBody, match="more than 100 fields"):
        SOURCES["datadog"].parse(RequestBody(form, {"content-type": "application/x-www-form-urlencoded"}))


def test_a_group_with_too_many_alerts_is_refused():
    with pytest.raises(BadBody, match="at most 10,000"):
        parse("grafana", {"alerts": [{}] * 10_001})


def test_alerts_without_an_identifier_are_not_one_group():
    body = {**load("oncall", "fires").body, "alert_uid": ""}

    assert parse_one("oncall", body).entity_id is None


def test_an_alertmanager_alert_needs_no_alertname():
    alert = parse_one("prometheus", {"alerts": [{"status": "firing", "labels": {}, "fingerprint": "f"}]})

    assert (alert.entity_id, alert.alert_type) == ("f", AlertType.CRITICAL)


def test_the_documentation_of_google_cloud_is_an_object_or_a_text():
    for name in ("fires", "repeats"):
        assert load("stackdriver", name).parse_one().message == "CPU: GCE VM Instance - CPU usage"


def test_a_test_message_of_uptime_kuma_is_information():
    alert = load("uptimekuma", "test_message").parse_one()

    assert (alert.message, alert.alert_type) == ("Webhook Testing", AlertType.INFO)


def build_form(parts):
    """Return the body and the header of a form in parts, as a client of HTTP builds it."""
    environ = EnvironBuilder(method="POST", data=parts, content_type="multipart/form-data").get_environ()
    return environ["wsgi.input"].read(), {"content-type": environ["CONTENT_TYPE"]}


def test_uptime_kuma_can_send_a_form_in_parts():
    fixture = load("uptimekuma", "fires")
    raw, headers = build_form({"other": "1", "data": json.dumps(fixture.body, ensure_ascii=False)})
    request = RequestBody(raw, headers)

    assert SOURCES["uptimekuma"].parse(request) == fixture.parse()
    assert SOURCES["uptimekuma"].count(request) == 1


OTHER_FORM, OTHER_HEADERS = build_form({"other": "1"})


# Boundaries are random, so the names of the cases are written here.
@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        pytest.param(b"", "multipart/form-data", id="no boundary"),
        pytest.param(b"--x\r\nbroken", "multipart/form-data; boundary=x", id="no end"),
        pytest.param(OTHER_FORM, OTHER_HEADERS["content-type"], id="another field"),
        pytest.param(OTHER_FORM, "multipart/form-data; boundary=x", id="another boundary"),
        pytest.param(b"", "multipart/form-data; boundary=\u00e9", id="not ASCII"),
    ],
)
def test_a_form_in_parts_without_its_data_is_refused(raw, kind):
    with pytest.raises(BadBody):
        SOURCES["uptimekuma"].parse(RequestBody(raw, {"content-type": kind}))


def test_a_form_with_too_many_parts_is_refused():
    raw, headers = build_form({f"f{number}": "1" for number in range(200)})

    with pytest.raises(BadBody, match="more than 100 parts"):
        SOURCES["uptimekuma"].parse(RequestBody(raw, headers))


def test_a_certificate_that_expires_is_a_warning():
    text = "[Shop][https://shop.example.org] SSL certificate shop.example.org will expire in 7 days"
    alert = parse_one("uptimekuma", {"heartbeat": None, "monitor": None, "msg": text})

    assert alert.alert_type is AlertType.WARNING


def test_an_acknowledgement_taken_back_in_zabbix_is_none():
    body = {**load("zabbix", "acknowledges").body, "event_update_action": "unacknowledged"}

    assert parse_one("zabbix", body).alert_type is AlertType.CRITICAL


def test_a_macro_that_zabbix_does_not_know_counts_as_missing():
    alert = parse_one("zabbix", {"event_id": "7", "event_name": "Disk", "host": "{HOST.NAME}"})

    assert (alert.message, [one.code for one in alert.remarks]) == ("Disk", ["level_missing"])


def test_an_issue_of_sentry_resolves_the_alert_about_it():
    assert load("sentry", "resolves").parse_one().entity_id == "issue 1170820242"


def test_an_event_with_its_fields_in_headers_is_the_same_problem():
    alert, other = load("cloudevents", "headers_fires").parse_one(), load("cloudevents", "fires").parse_one()

    assert (alert.entity_id, alert.alert_type) == (other.entity_id, other.alert_type)


def test_the_time_of_zabbix_7_is_kept_and_the_macro_of_older_versions_is_no_time():
    assert load("zabbix", "repeats").parse_one().source_at.isoformat()[:13] == "2026-03-01T02"
    assert load("zabbix", "fires").body["event_timestamp"] == "{EVENT.TIMESTAMP}"
    assert load("zabbix", "fires").parse_one().source_at is None


@pytest.mark.parametrize("kind", ["grafana", "zabbix", "sentry", "newrelic"])
def test_a_body_in_another_form_is_read_in_the_generic_form(kind):
    alert = parse_one(kind, {"message": "Disk full", "alert_type": "error", "entity_id": "d"})

    assert (alert.message, alert.alert_type, alert.entity_id) == ("Disk full", AlertType.ERROR, "d")
    assert [reason.code for reason in alert.remarks] == ["other_form"]


def test_json_without_a_mapping_is_read_in_the_generic_form():
    (alert,) = SOURCES["json"].parse(RequestBody(json.dumps({"title": "Disk full"}).encode()))

    assert alert.message == "Disk full"


def test_a_link_never_runs_as_a_script():
    alert = parse_one("oncall", {"alert_uid": "1", "link_to_upstream_details": "javascript:alert(1)"})

    assert alert.urls == ()


def test_the_time_can_be_in_milliseconds():
    assert parse_one("newrelic", {"id": "1", "state": "ACTIVATED", "updatedAt": 1772330975000}).source_at == (
        load("stackdriver", "fires").parse_one().source_at
    )


@pytest.mark.parametrize("kind", ["datadog", "healthchecks"])
def test_json_that_is_sent_as_a_form_is_json(kind):
    body = json.dumps({"name": "Backup", "status": "down", "code": "7d0", "message": "late"}).encode()
    form = {"content-type": "application/x-www-form-urlencoded"}

    assert SOURCES[kind].parse(RequestBody(body, form)) == SOURCES[kind].parse(RequestBody(body))


def test_only_links_of_amazon_confirm_a_subscription():
    def list_urls(address):
        body = {"Type": "SubscriptionConfirmation", "TopicArn": "arn:aws:sns:x", "SubscribeURL": address}
        (alert,) = SOURCES["cloudwatch_v2"].parse(RequestBody(json.dumps(body).encode()))
        return [link["link_url"] for link in alert.urls]

    real = "https://sns.eu-west-1.amazonaws.com/?Action=ConfirmSubscription&Token=2336"
    assert list_urls(real) == [real]
    for other in ("https://evil.example/", "https://sns.eu-west-1.amazonaws.com.evil.example/", "http://sns"):
        assert list_urls(other) == []


def nest(levels):
    value = {}
    for _ in range(levels):
        value = {"a": value}
    return value


def build_groups():
    """Return a body with two good alerts and one that is nested too deeply between them, by kind."""
    bodies = {}
    for kind in ("prometheus", "grafana"):
        body = load(kind, "fires").body
        first = body["alerts"][0]
        last = {**first, "fingerprint": "last"}
        bodies[kind] = {**body, "alerts": [first, {**first, "annotations": {"deep": nest(200)}}, last]}
    event = load("cloudevents", "fires").body
    bodies["cloudevents"] = [event, {**event, "data": nest(200)}, {**event, "subject": "last"}]
    return bodies


@pytest.mark.parametrize(("kind", "body"), build_groups().items(), ids=build_groups())
def test_an_alert_that_is_nested_too_deeply_does_not_lose_the_others(kind, body):
    first, broken, last = parse(kind, body)

    assert [reason.code for reason in broken.remarks] == ["alert_unreadable"]
    assert (first.remarks, last.remarks) == ((), ())
    assert first.entity_id != last.entity_id
    assert SOURCES[kind].count(build_request(kind, body)) == 3
    assert json.loads(json.dumps(broken.payload)) == broken.payload


@pytest.mark.parametrize(("kind", "body"), build_groups().items(), ids=build_groups())
def test_a_group_of_which_no_alert_can_be_read_is_refused(kind, body):
    only = [body[1]] if isinstance(body, list) else {**body, "alerts": [body["alerts"][1]]}

    with pytest.raises(BadBody):
        parse(kind, only)


def test_a_pushed_alert_that_is_nested_too_deeply_is_left_out():
    body = load("alertmanager", "fires").body
    request = build_request("alertmanager", [*body, {**body[0], "annotations": {"deep": nest(200)}}])

    assert (SOURCES["alertmanager"].count(request), request.left_out) == (len(body), 1)


def test_labels_that_contain_the_separator_are_other_labels():
    splits = [{"a": "b\x1fc\x1fd"}, {"a": "b", "c": "d"}, {"a\x1fb": "c\x1fd"}, {"a": "b\x1f", "c": "d"}]
    more = [{"a": "b\x1ec", "c": "d"}, {"a": "b\x1es", "c": "d"}, {"a": "b\ud800"}, {"a": "b?"}]

    assert len({parse_one("alertmanager", [{"labels": labels}]).entity_id for labels in splits + more}) == 8


def test_usual_labels_keep_the_entity_id_of_earlier_versions():
    labels = {"alertname": "DiskFull", "instance": "db1:9100", "severity": "critical"}
    alert = parse_one("alertmanager", [{"labels": labels}])

    assert alert.entity_id == "4f0eaba16f692a80f5e6f0710812b588"


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("sentry", {"action": "critical", "data": {"metric_alert": {"title": "CPU"}}}),
        ("sentry", {"action": "created", "data": {"issue": {"title": "CPU", "id": {}}}}),
        (
            "sentry",
            {"action": "created", "data": {"event": {"title": "CPU", "issue_url": "https://x/issues/"}}},
        ),
        ("sentry", {"event": {"title": "CPU"}, "project": "shop", "id": ""}),
        ("cloudevents", {"specversion": "1.0", "type": "a.b", "source": "/shop", "subject": {}}),
        ("cloudevents", [{"specversion": "1.0", "type": "a.b", "subject": "disk"}]),
    ],
)
def test_a_body_that_does_not_name_its_problem_is_alone(kind, body):
    assert parse_one(kind, body).entity_id is None


def test_the_two_numbers_of_a_metric_alert_of_sentry_are_not_mixed_up():
    alerts = [
        parse_one("sentry", {"action": "critical", "data": {"metric_alert": {name: "7", "title": "CPU"}}})
        for name in ("id", "identifier")
    ]

    assert [alert.entity_id for alert in alerts] == ["metric 7", "metric identifier 7"]
