"""Titles and links, where a tool leaves out what it usually sends."""

import pytest

from pipeline.sources.table import SOURCES
from tests.support.sources import build_request, load


def read(kind, body):
    (alert,) = SOURCES[kind].parse(build_request(kind, body))
    return alert


def prometheus(annotations, **labels):
    one = {"status": "firing", "labels": {"alertname": "DiskFull", **labels}, "annotations": annotations}
    return read("prometheus", {"alerts": [one]})


@pytest.mark.parametrize(
    ("annotations", "labels", "title"),
    [
        ({"summary": "Disk full", "description": "97 % used"}, {"instance": "db1"}, "Disk full"),
        (
            {"description": "97 % used\nSee the wiki"},
            {"instance": "db1:9100"},
            "DiskFull: 97 % used (db1:9100)",
        ),
        ({"message": "97 % used on db1"}, {"host": "db1"}, "DiskFull: 97 % used on db1"),
        ({"description": "97 % used"}, {}, "DiskFull: 97 % used"),
        ({}, {"instance": "db1"}, "DiskFull (db1)"),
        ({}, {}, "DiskFull"),
    ],
)
def test_an_alert_of_prometheus_without_a_summary_is_named_by_its_description_and_its_host(
    annotations, labels, title
):
    assert prometheus(annotations, **labels).message == title


def grafana(alertname, **labels):
    body = load("grafana", "fires").body
    labels = {"alertname": alertname, "rulename": "High memory usage", **labels}
    return read("grafana", {**body, "alerts": [{"status": "firing", "labels": labels, "annotations": {}}]})


@pytest.mark.parametrize(
    ("alertname", "title"),
    [
        ("DatasourceNoData", "High memory usage: no data"),
        ("DatasourceError", "High memory usage: error of the data source"),
        ("Another", "Another"),
    ],
)
def test_a_rule_of_grafana_without_data_is_named_by_the_rule(alertname, title):
    assert grafana(alertname).message == title


def test_a_rule_without_data_keeps_the_summary_of_the_rule():
    body = load("grafana", "fires").body
    labels = {"alertname": "DatasourceNoData", "rulename": "High memory usage"}
    one = {"status": "firing", "labels": labels, "annotations": {"summary": "Memory of web-1 is full"}}

    assert read("grafana", {**body, "alerts": [one]}).message == "High memory usage: no data"


def test_a_rule_of_grafana_without_a_summary_is_named_with_its_host():
    assert grafana("CPU", instance="web-1").message == "CPU (web-1)"


def link_of(alert, text):
    return next((link["link_url"] for link in alert.urls if link["link_text"] == text), None)


@pytest.mark.parametrize(
    ("arn", "address"),
    [
        (
            "arn:aws:cloudwatch:eu-west-1:123456789012:alarm:CPU of web/1",
            "https://eu-west-1.console.aws.amazon.com/cloudwatch/home?region=eu-west-1"
            "#alarmsV2:alarm/CPU%20of%20web%2F1",
        ),
        (
            "arn:aws-cn:cloudwatch:cn-north-1:123456789012:alarm:CPU of web/1",
            "https://console.amazonaws.cn/cloudwatch/home?region=cn-north-1#alarmsV2:alarm/CPU%20of%20web%2F1",
        ),
        (
            "arn:aws-us-gov:cloudwatch:us-gov-west-1:123456789012:alarm:CPU of web/1",
            "https://console.amazonaws-us-gov.com/cloudwatch/home?region=us-gov-west-1"
            "#alarmsV2:alarm/CPU%20of%20web%2F1",
        ),
        ("arn:aws:cloudwatch:x/../y:1:alarm:CPU", None),
        ("no arn", None),
    ],
)
def test_an_alarm_links_to_the_console_of_its_region(arn, address):
    alarm = {"AlarmName": "CPU of web/1", "AlarmArn": arn, "NewStateValue": "ALARM"}

    assert link_of(read("cloudwatch_v2", alarm), "CloudWatch") == address


def test_an_alarm_says_why_and_what_it_is_for():
    alarm = {
        "AlarmName": "CPU",
        "AlarmDescription": "Restart the worker.",
        "NewStateValue": "ALARM",
        "NewStateReason": "Threshold Crossed: 97.0 > 95.0",
    }

    alert = read("cloudwatch_v2", alarm)

    assert (alert.message, alert.summary) == (
        "CPU: Threshold Crossed: 97.0 > 95.0",
        "Restart the worker.",
    )
