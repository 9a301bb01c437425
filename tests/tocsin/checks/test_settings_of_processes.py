"""`tocsin check` in another shell than the running processes."""

import json
from datetime import timedelta

import pytest

from models.domain.channels import CHANNELS, ChannelSpec
from models.reports import backlog
from models.reports.backlog import ProcessLiveness
from models.store.opening import open_store
from models.store.store import connection, db
from models.store.store import store as get_store
from runtime.settings import list_values, load
from tests.support.polling import wait_until
from tests.support.processes import start_tocsin, tocsin
from tests.support.stores import get_url
from tocsin.checks.settings_of_processes import (
    find_bad_certificate,
    find_missing_listener,
    find_open_countries,
)


def list_kinds(home):
    open_store(get_url(home), home)
    with connection():
        live = backlog.list_live(get_store().now())
    db.close_all()
    return {process.kind: process.settings for process in live}


@pytest.mark.processes
def test_the_check_uses_the_settings_of_the_running_processes(home):
    relay = {
        "TOCSIN_SMTP_HOST": "relay.example.org", "TOCSIN_SMTP_TLS": "tls", "TOCSIN_SMTP_USER": "tocsin",
        "TOCSIN_SMTP_PASSWORD": "hunter2", "TOCSIN_PUBLIC_URL": "https://tocsin.example.org",
    }  # fmt: skip
    with start_tocsin(home, "up", **relay) as running:
        wait_until(running.is_ready)
        wait_until(lambda: list_kinds(home).keys() == {"web", "worker", "clock"})
        shown = list_kinds(home)
        ended = tocsin(home, "check", "--json")

    assert "hunter2" not in str(shown)
    assert {values["TOCSIN_SMTP_HOST"] for values in shown.values()} == {"relay.example.org"}
    found = {problem["kind"]: problem["what"] for problem in json.loads(ended.stdout)["problems"]}
    assert found.keys() == {"other_settings"}
    for name in relay:
        assert name in found["other_settings"]
    assert "hunter2" not in ended.stdout


def test_the_check_names_the_setting_with_which_all_countries_or_none_get_calls(monkeypatch):
    monkeypatch.setitem(CHANNELS, 196, ChannelSpec(196, "call", "a call", toll_units=3))

    (found,) = find_open_countries(load({"TOCSIN_PHONE_PREFIXES": "+"}))
    assert (found.minor, "TOCSIN_PHONE_PREFIXES" in found.what) == (True, True)
    service = {"ACCOUNT_SID": "AC1", "AUTH_TOKEN": "x", "SMS_FROM": "MG1"}
    (found,) = find_open_countries(load({f"TOCSIN_TWILIO_{name}": value for name, value in service.items()}))
    assert (found.kind, found.minor) == ("no_countries", False)
    assert list(find_open_countries(load({"TOCSIN_PHONE_PREFIXES": "+46"}))) == []


TELEGRAM = {"TOCSIN_TELEGRAM_TOKEN": "1:x"}
SOCKET_MODE = {"TOCSIN_SLACK_BOT_TOKEN": "xoxb-1", "TOCSIN_SLACK_APP_TOKEN": "xapp-1"}


@pytest.fixture
def run(store, now):
    """run("listener", {...}): a process of this kind runs with these settings."""

    def run(kind, given):
        values = list_values(load(given))
        backlog.record_liveness(ProcessLiveness(kind, f"{kind}:1", now, settings=values), now)

    return run


def list_missing(given, now):
    return [found.what.partition(":")[0] for found in find_missing_listener(load(given), now)]


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        (TELEGRAM, ["Telegram"]),
        (SOCKET_MODE, ["Slack"]),
        ({"TOCSIN_SLACK_BOT_TOKEN": "xoxb-1"}, []),
        ({}, []),
        ({**TELEGRAM, **SOCKET_MODE}, ["Slack", "Telegram"]),
    ],
)
def test_the_check_names_channels_without_a_listener(run, now, given, missing):
    run("worker", given)

    assert list_missing(given, now) == missing
    # Also in a shell without the settings of the running processes.
    assert list_missing({}, now) == missing
    run("listener", given)
    assert list_missing(given, now) == []


def test_a_listener_without_the_setting_does_not_count(run, now):
    run("listener", TELEGRAM)

    assert list_missing({**TELEGRAM, **SOCKET_MODE}, now) == ["Slack"]
    (found,) = find_missing_listener(load(SOCKET_MODE), now)
    assert "TOCSIN_SLACK_APP_TOKEN and TOCSIN_SLACK_BOT_TOKEN are set" in found.what
    assert not found.minor


MAIL_IN = {"TOCSIN_MAIL_IN_DOMAIN": "alerts.example.org"}


def test_the_check_says_that_no_listener_receives_mails(run, now):
    run("worker", MAIL_IN)
    run("listener", TELEGRAM)
    (found,) = find_missing_listener(load({}), now)
    assert "TOCSIN_MAIL_IN_DOMAIN is set, but no listener runs with it" in found.what

    run("listener", MAIL_IN)
    assert list(find_missing_listener(load(MAIL_IN), now)) == []


def test_the_check_finds_a_certificate_for_mails_that_cannot_be_used(tmp_path):
    file = tmp_path / "certificate.pem"
    file.write_text("-----BEGIN CERTIFICATE-----\n")
    given = {"TOCSIN_MAIL_IN_CERTIFICATE": str(file)}

    (found,) = find_bad_certificate(load({**MAIL_IN, **given}))
    assert (found.kind, str(file) in found.what) == ("bad_certificate", True)
    assert list(find_bad_certificate(load(given))) == []


def test_while_nothing_runs_no_listener_is_missing(store, now):
    assert list_missing(TELEGRAM, now) == []


def test_a_listener_that_was_killed_is_missing(run, now):
    run("worker", TELEGRAM)
    run("listener", TELEGRAM)
    later = now + backlog.DEAD_AFTER + timedelta(seconds=1)
    assert list_missing(TELEGRAM, later) == []
    backlog.record_liveness(ProcessLiveness("worker", "worker:1", now), later)

    assert list_missing(TELEGRAM, later) == ["Telegram"]
