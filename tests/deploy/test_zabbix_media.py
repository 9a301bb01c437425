"""deploy/zabbix/media_tocsin.yaml has the form of an export, and names the fields that the source reads."""

from pathlib import Path

import yaml

from tocsin.commands.alerts.send import load_example

PATH = Path(__file__).parents[2] / "deploy" / "zabbix" / "media_tocsin.yaml"


def test_it_sends_the_fields_of_the_example():
    (media,) = yaml.safe_load(PATH.read_text())["zabbix_export"]["media_types"]
    names = {each["name"] for each in media["parameters"]}

    assert media["type"] == "WEBHOOK"
    assert names - {"URL"} == set(load_example("zabbix")["body"]) - {"source"}


def test_it_has_a_text_for_each_kind_of_notification():
    (media,) = yaml.safe_load(PATH.read_text())["zabbix_export"]["media_types"]

    modes = [each["operation_mode"] for each in media["message_templates"]]
    assert modes == ["PROBLEM", "RECOVERY", "UPDATE"]
