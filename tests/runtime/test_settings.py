"""The table of settings; an invalid setting stops the start with a clear error."""

import os
from dataclasses import fields

import pytest

from pipeline.topology import STAGES
from runtime import data_folder, settings
from runtime.setting_values import SPLIT_AFTER, BadSetting
from runtime.settings import SETTINGS, Settings


@pytest.fixture
def load(tmp_path):
    """load(environ): the settings of an environment, with an empty data folder unless it names another."""
    return lambda environ: settings.load({"TOCSIN_HOME": str(tmp_path), **environ})


@pytest.fixture
def write_file(tmp_path):
    """write_file(text): put a file with settings into the data folder, and return its path."""

    def write(text):
        path = tmp_path / "tocsin.toml"
        path.touch(0o600)
        path.write_text(text)
        return path

    return write


def test_the_table_and_the_object_have_the_same_names():
    assert [setting.name for setting in SETTINGS] == [field.name for field in fields(Settings)]


def test_every_default_is_valid(load):
    assert load({}).public_url == "http://127.0.0.1:8080"


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("TOCSIN_PRT", "did you mean TOCSIN_PORT?"),
        ("TOCSIN_SMPT_HOST", "did you mean TOCSIN_SMTP_HOST?"),
        ("TOCSIN_NONSENSE", "docs/settings.md lists all settings"),
    ],
)
def test_an_unknown_setting_is_an_error(load, name, advice):
    with pytest.raises(BadSetting) as caught:
        load({name: "mail"})

    assert str(caught.value) == f"unknown setting {name}: {advice}"


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("TOCSIN_PORT", "http"),
        ("TOCSIN_PORT", "70000"),
        ("TOCSIN_WEB_THREADS", "0"),
        ("TOCSIN_PUBLIC_URL", "tocsin.example.org"),
        ("TOCSIN_DATABASE_URL", "mysql://x"),
        ("TOCSIN_OIDC_ISSUER", "http://login.example.org"),
        ("TOCSIN_OIDC_ISSUER", "https:///x"),
        ("TOCSIN_SMTP_TLS", "ssl"),
        ("TOCSIN_SMTP_CA_FILE", "/nowhere/ca.pem"),
        ("TOCSIN_PIPELINE_QUEUES", "dedupe"),
        ("TOCSIN_OPEN_ALERT_STATUS", "perhaps"),
        ("TOCSIN_DEAD_MANS_SWITCH_URL", "ftp://watch.example.org/x"),
        ("TOCSIN_DEAD_MANS_SWITCH_URL", "https://"),
        ("TOCSIN_DEAD_MANS_SWITCH_URL", "https://watch.example.org:x/"),
        ("TOCSIN_DEAD_MANS_SWITCH_URL", "https://watch.example.org/a b"),
        ("TOCSIN_DEAD_MANS_SWITCH_URL", "https://me:secret@watch.example.org/"),
        ("TOCSIN_PUBLIC_URL", "https://tocsin.example.org/a b"),
        ("TOCSIN_HOME", " "),
        ("TOCSIN_HOST", "http://0.0.0.0"),
        ("TOCSIN_OWNER_EMAIL", "alice"),
        ("TOCSIN_SMTP_HOST", "mail.example.org:587"),
        ("TOCSIN_SMTP_FROM", "tocsin"),
        ("TOCSIN_KEEP_ALERTS", "0"),
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
def test_the_error_for_an_invalid_value_names_the_setting(load, variable, value):
    with pytest.raises(BadSetting, match=f"^{variable} must [^\\n]+$"):
        load({variable: value})


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("TOCSIN_REDIS_URL", "http://:hunter2@redis"),
        ("TOCSIN_DEAD_MANS_SWITCH_URL", "https://watch.example.org/hunter2 "),
        ("TOCSIN_DEAD_MANS_SWITCH_URL", "https://watch.example.org:hunter2/"),
    ],
)
def test_the_error_does_not_contain_a_secret_value(load, variable, value):
    with pytest.raises(BadSetting) as caught:
        load({variable: value})

    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("host", "shown"), [("0.0.0.0", "127.0.0.1"), ("::", "[::1]"), ("::1", "[::1]"), ("10.0.0.5", "10.0.0.5")]
)
def test_the_default_public_url_is_the_address_that_web_listens_on(load, host, shown):
    assert load({"TOCSIN_HOST": host, "TOCSIN_PORT": "9000"}).public_url == f"http://{shown}:9000"


def test_the_url_of_the_dead_mans_switch_is_kept_unchanged(load):
    url = "https://watch.example.org/ping/token/?a=b"

    assert load({"TOCSIN_DEAD_MANS_SWITCH_URL": url}).dead_mans_switch_url == url


def test_the_setting_allows_the_queue_splits_of_the_pipeline():
    assert [stage.name for stage in STAGES if stage.split_after] == list(SPLIT_AFTER)


LOGIN = {
    "TOCSIN_SMTP_HOST": "mail.example.org",
    "TOCSIN_SMTP_USER": "tocsin",
    "TOCSIN_SMTP_PASSWORD": "hunter2",
}


def test_a_login_to_the_mail_relay_needs_tls_or_an_explicit_setting(load):
    with pytest.raises(BadSetting, match="TOCSIN_SMTP_PLAIN_LOGIN=1") as caught:
        load(LOGIN)

    assert "hunter2" not in str(caught.value)
    assert load({**LOGIN, "TOCSIN_SMTP_PLAIN_LOGIN": "1"}).smtp_plain_login
    for tls in ("starttls", "tls"):
        assert not load({**LOGIN, "TOCSIN_SMTP_TLS": tls}).smtp_plain_login


def test_a_login_without_a_mail_relay_is_sent_to_nobody(load):
    assert load({**LOGIN, "TOCSIN_SMTP_HOST": ""}).smtp_user == "tocsin"


def test_trusted_proxies_are_networks_and_default_to_none(load):
    assert load({}).trusted_proxies == ()
    known = load({"TOCSIN_TRUSTED_PROXIES": "127.0.0.1, 10.0.0.0/8,fd00::/8"}).trusted_proxies
    assert known == ("127.0.0.1/32", "10.0.0.0/8", "fd00::/8")


@pytest.mark.parametrize(
    ("variable", "value", "text"),
    [
        ("TOCSIN_PORT", "abc", "be a whole number from 1 to 65535; it is 'abc'"),
        ("TOCSIN_KEEP_ALERTS", "0", "be a whole number of days from 1 to 36500; it is '0'"),
        ("TOCSIN_OPEN_ALERT_STATUS", "si", "be 1 or 0; it is 'si'"),
        ("TOCSIN_SMTP_TLS", "ssl", "be one of none, starttls, tls; it is 'ssl'"),
    ],
)
def test_the_error_says_what_would_be_right(load, variable, value, text):
    with pytest.raises(BadSetting) as caught:
        load({variable: value})

    assert str(caught.value) == f"{variable} must {text}"


def test_a_setting_is_from_the_environment_or_the_file_or_is_the_default(load, write_file, tmp_path):
    write_file(
        """
        port = 9000
        smtp_host = "relay.example.org"
        open_alert_status = true
        trusted_proxies = ["10.0.0.0/8", "192.0.2.0/24"]
        """
    )

    found = load({"TOCSIN_SMTP_HOST": "other.example.org"})

    assert (found.smtp_host, found.port, found.keep_alerts) == ("other.example.org", 9000, 30)
    assert found.open_alert_status
    assert found.trusted_proxies == ("10.0.0.0/8", "192.0.2.0/24")
    given = settings.read_given({"TOCSIN_HOME": str(tmp_path), "TOCSIN_SMTP_HOST": "other.example.org"})
    sources = [given[name].source for name in ("smtp_host", "port", "keep_alerts")]
    assert sources == ["environment", "file", "default"]


def test_an_empty_variable_counts_as_not_set(load, write_file):
    write_file('smtp_host = "relay.example.org"')

    found = load({"TOCSIN_SMTP_HOST": "", "TOCSIN_SMTP_FROM": "", "TOCSIN_OWNER_EMAIL": ""})
    assert found.smtp_host == "relay.example.org"
    assert found == load({})


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("port = 'abc'", "port in {path} must be a whole number from 1 to 65535; it is 'abc'"),
        pytest.param(
            f"port = {'1' * 5000}",
            "the settings file {path} has a number with too many digits",
            id="a number of 5000 digits",
        ),
        ("prt = 80", "unknown setting prt in {path}: did you mean port?"),
        ("TOCSIN_PORT = 80", "unknown setting TOCSIN_PORT in {path}: did you mean port?"),
        ("home = '/srv'", "home must not be in {path}, which is in this folder: use --home or TOCSIN_HOME"),
        (
            "port = 1.5",
            "port in {path} must be a text in quotes, a whole number, true, false, or a list of these",
        ),
        (
            "[port]",
            "port in {path} must be a text in quotes, a whole number, true, false, or a list of these",
        ),
        (
            "port = 80\nport = 81 # again",
            "the settings file {path} must be TOML: Cannot overwrite a value (at line 2, column 10)",
        ),
        (
            "redis_url = 'http://hunter2'",
            "redis_url in {path} must be a URL that begins with redis:// or rediss:// or unix://",
        ),
    ],
)
def test_an_error_in_the_file_names_the_file_and_what_would_be_right(load, write_file, content, text):
    path = write_file(content)

    with pytest.raises(BadSetting) as caught:
        load({})

    assert str(caught.value) == text.format(path=path)


def test_a_file_that_others_can_use_is_refused(load, write_file):
    path = write_file("port = 9000")
    path.chmod(0o640)

    with pytest.raises(BadSetting) as caught:
        load({})

    assert str(caught.value) == f"other users of this host can use the settings file. Run: chmod 600 {path}"


def test_a_file_that_cannot_be_read_is_refused(load, tmp_path):
    (tmp_path / "tocsin.toml").mkdir()

    with pytest.raises(BadSetting, match=r"the settings file .*tocsin\.toml must be a file"):
        load({})


def test_a_file_that_is_not_utf_8_is_refused(load, write_file):
    write_file("").write_bytes(b'smtp_host = "\xff"')

    with pytest.raises(BadSetting, match=r"the settings file .*tocsin\.toml must be UTF-8"):
        load({})


def test_a_home_that_is_a_file_is_refused(load, tmp_path):
    (tmp_path / "file").touch()

    with pytest.raises(BadSetting, match=r"TOCSIN_HOME must be the path of a folder; .*/file is a file"):
        load({"TOCSIN_HOME": str(tmp_path / "file")})


def test_a_home_of_another_user_is_refused(load, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 4_000_000_000)

    with pytest.raises(BadSetting, match=f"the data folder {tmp_path} belongs to the user .*: run Tocsin as"):
        load({})


def test_on_postgresql_a_command_uses_no_home_of_another_user(load, write_file, tmp_path, monkeypatch):
    write_file("port = 9000")
    url = "postgresql://db.example.org/tocsin"
    assert load({"TOCSIN_DATABASE_URL": url}).port == 9000
    monkeypatch.setattr(os, "geteuid", lambda: 4_000_000_000)

    found = load({"TOCSIN_DATABASE_URL": url})

    assert (found.database_url, found.port) == (url, 8080)
    with pytest.raises(BadSetting, match="belongs to the user"):
        data_folder.prepare(tmp_path)


def test_a_folder_with_files_of_others_only_is_not_used(tmp_path):
    (tmp_path / "thesis.tex").touch()

    with pytest.raises(BadSetting, match=f"the folder {tmp_path} has files, but no data of Tocsin"):
        data_folder.prepare(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_new_folder_may_have_the_log_of_tocsin_up(tmp_path):
    # A user without a terminal creates the folder for `tocsin up > var/up.log`, as the README starts it.
    (tmp_path / "up.log").touch()

    data_folder.prepare(tmp_path)


def test_the_values_that_a_process_shows_have_no_secrets(load):
    values = settings.list_values(load({**LOGIN, "TOCSIN_SMTP_TLS": "tls"}))

    assert "hunter2" not in str(values)
    assert values["TOCSIN_SMTP_PASSWORD"] is True
    assert (values["TOCSIN_SMTP_HOST"], values["TOCSIN_REDIS_URL"]) == ("mail.example.org", False)


@pytest.mark.parametrize("name", ["TOCSIN_TWILIO2_ACCOUNT_SID", "TOCSIN_TWILIO2_AUTH_TOKEN"])
def test_a_second_provider_without_credentials_is_refused(load, name):
    with pytest.raises(BadSetting, match="must both be set, or neither") as caught:
        load({name: "secret value"})

    assert "secret value" not in str(caught.value)
