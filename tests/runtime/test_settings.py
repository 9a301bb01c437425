"""The table of settings; an invalid setting stops the start with a clear error."""

from dataclasses import fields

import pytest

from pipeline.topology import STAGES
from runtime.settings import SETTINGS, SPLIT_AFTER, BadSetting, Settings, load


def test_the_table_and_the_object_have_the_same_names():
    assert [setting.name for setting in SETTINGS] == [field.name for field in fields(Settings)]


def test_every_default_is_valid():
    assert load({}).public_url == "http://127.0.0.1:8080"


def test_an_unknown_setting_is_an_error():
    with pytest.raises(
        BadSetting, match=r"unknown setting TOCSIN_SMPT_HOST; known settings: .*TOCSIN_SMTP_HOST"
    ):
        load({"TOCSIN_SMPT_HOST": "mail"})


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("TOCSIN_PORT", "http"),
        ("TOCSIN_PORT", "70000"),
        ("TOCSIN_WEB_THREADS", "0"),
        ("TOCSIN_PUBLIC_URL", "tocsin.example.org"),
        ("TOCSIN_DATABASE_URL", "mysql://x"),
        ("TOCSIN_SMTP_TLS", "ssl"),
        ("TOCSIN_SMTP_CA_FILE", "/nowhere/ca.pem"),
        ("TOCSIN_PIPELINE_QUEUES", "dedupe"),
        ("TOCSIN_OPEN_ALERT_STATUS", "perhaps"),
        ("TOCSIN_DEAD_MANS_SWITCH_URL", "ftp://watch.example.org/x"),
        ("TOCSIN_DEAD_MANS_SWITCH_URL", "https://"),
        ("TOCSIN_DEAD_MANS_SWITCH_URL", "https://watch.example.org:x/"),
        ("TOCSIN_DEAD_MANS_SWITCH_URL", "https://watch.example.org/a b"),
        ("TOCSIN_DEAD_MANS_SWITCH_URL", "https://me:secret@watch.example.org/"),
        ("TOCSIN_DEAD_MANS_SWITCH_EVERY", "9"),
        ("TOCSIN_DEAD_MANS_SWITCH_EVERY", "often"),
        ("TOCSIN_METRICS_PORT", "off"),
        ("TOCSIN_TRUSTED_PROXIES", "nginx"),
        ("TOCSIN_TRUSTED_PROXIES", "10.0.0.1/8"),
        ("TOCSIN_TRUSTED_PROXIES", "10.0.0.0/8,"),
        ("TOCSIN_TRUSTED_PROXIES", "*"),
        ("TOCSIN_TRUSTED_PROXIES", "0.0.0.0/0"),
        ("TOCSIN_TRUSTED_PROXIES", "::/0"),
        pytest.param("TOCSIN_METRICS_PORT", "8080", id="the port of web"),
    ],
)
def test_the_error_for_an_invalid_value_names_the_setting(variable, value):
    with pytest.raises(BadSetting, match=f"^{variable} cannot be used: "):
        load({variable: value})


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("TOCSIN_REDIS_URL", "http://:hunter2@redis"),
        ("TOCSIN_DEAD_MANS_SWITCH_URL", "https://watch.example.org/hunter2 "),
        ("TOCSIN_DEAD_MANS_SWITCH_URL", "https://watch.example.org:hunter2/"),
    ],
)
def test_the_error_does_not_contain_a_secret_value(variable, value):
    with pytest.raises(BadSetting) as caught:
        load({variable: value})

    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("host", "shown"), [("0.0.0.0", "127.0.0.1"), ("::1", "[::1]"), ("10.0.0.5", "10.0.0.5")]
)
def test_the_default_public_url_is_the_address_that_web_listens_on(host, shown):
    assert load({"TOCSIN_HOST": host, "TOCSIN_PORT": "9000"}).public_url == f"http://{shown}:9000"


def test_the_url_of_the_dead_mans_switch_is_kept_unchanged():
    url = "https://watch.example.org/ping/token/?a=b"

    assert load({"TOCSIN_DEAD_MANS_SWITCH_URL": url}).dead_mans_switch_url == url


def test_the_setting_allows_the_queue_splits_of_the_pipeline():
    assert [stage.name for stage in STAGES if stage.split_after] == list(SPLIT_AFTER)


LOGIN = {
    "TOCSIN_SMTP_HOST": "mail.example.org",
    "TOCSIN_SMTP_USER": "tocsin",
    "TOCSIN_SMTP_PASSWORD": "hunter2",
}


def test_a_login_to_the_mail_relay_needs_tls_or_an_explicit_setting():
    with pytest.raises(BadSetting, match="TOCSIN_SMTP_PLAIN_LOGIN=1") as caught:
        load(LOGIN)

    assert "hunter2" not in str(caught.value)
    assert load({**LOGIN, "TOCSIN_SMTP_PLAIN_LOGIN": "1"}).smtp_plain_login
    for tls in ("starttls", "tls"):
        assert not load({**LOGIN, "TOCSIN_SMTP_TLS": tls}).smtp_plain_login


def test_a_login_without_a_mail_relay_is_sent_to_nobody():
    assert load({**LOGIN, "TOCSIN_SMTP_HOST": ""}).smtp_user == "tocsin"


def test_trusted_proxies_are_networks_and_default_to_none():
    assert load({}).trusted_proxies == ()
    known = load({"TOCSIN_TRUSTED_PROXIES": "127.0.0.1, 10.0.0.0/8,fd00::/8"}).trusted_proxies
    assert known == ("127.0.0.1/32", "10.0.0.0/8", "fd00::/8")
