"""The compose file names settings that exist, and servers that it starts."""

import re
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from runtime.settings import SETTINGS, Settings, load

ROOT = Path(__file__).parents[2]


class _StrictLoader(yaml.SafeLoader):
    """Refuses a mapping with the same key twice, as Compose does."""

    def construct_mapping(self, node, deep=False):
        keys = [key.value for key, _ in node.value]
        assert len(keys) == len(set(keys)), f"twice: {[key for key in set(keys) if keys.count(key) > 1]}"
        return super().construct_mapping(node, deep)


COMPOSE = yaml.load((ROOT / "deploy" / "compose.yaml").read_text(), _StrictLoader)
SERVICES = COMPOSE["services"]
TOCSIN = SERVICES["tocsin"]
# ${NAME}, ${NAME:-default} and ${NAME:?error}.
VARIABLE = re.compile(r"\$\{(\w+)(?::(-|\?)([^}]*))?\}")


def substitute(text: str, **env: str) -> str:
    """Replace the variables of a text as compose does. KeyError for a required variable without a value."""

    def get_value(match: re.Match[str]) -> str:
        name, mark, default = match.groups()
        return env.get(name) or default if mark == "-" else env[name]

    return VARIABLE.sub(get_value, text)


def list_texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for each in value.values() for text in list_texts(each)]
    if isinstance(value, list):
        return [text for each in value for text in list_texts(each)]
    return [str(value)]


def build_environment(**env: str) -> dict[str, str]:
    secrets = {"POSTGRES_PASSWORD": "hunter2", "REDIS_PASSWORD": "hunter3"}
    own = {name: substitute(text, **secrets) for name, text in TOCSIN["environment"].items()}
    return {**env, **own}


def test_every_setting_exists_and_can_be_used():
    """load() refuses unknown names and values that cannot be parsed."""
    settings = load(build_environment())

    assert urlsplit(settings.database_url).hostname == "postgresql"
    assert urlsplit(settings.redis_url).hostname == "redis"
    assert (settings.host, settings.port, str(settings.home)) == ("0.0.0.0", 8080, "/var/lib/tocsin")


def test_the_file_that_systemd_reads_has_all_other_settings():
    """A setting with a default here would win over the settings file in the volume."""
    unit = (ROOT / "deploy" / "tocsin.service").read_text()
    assert f"EnvironmentFile=-{TOCSIN['env_file']}\n" in unit
    own = {"TOCSIN_HOME", "TOCSIN_HOST", "TOCSIN_PORT", "TOCSIN_DATABASE_URL", "TOCSIN_REDIS_URL"}
    assert TOCSIN["environment"].keys() == own <= {setting.variable for setting in SETTINGS}


def test_without_values_of_the_user_all_other_settings_have_their_defaults():
    fixed = {"home", "host", "database_url", "redis_url"}
    found, defaults = load(build_environment()), load({"TOCSIN_HOME": "/var/lib/tocsin"})

    different = {name for name in Settings.__slots__ if getattr(found, name) != getattr(defaults, name)}
    assert different <= fixed


def test_the_login_of_a_mail_relay_reaches_the_settings():
    settings = load(
        build_environment(
            TOCSIN_SMTP_HOST="relay", TOCSIN_SMTP_TLS="tls", TOCSIN_SMTP_USER="a", TOCSIN_SMTP_PASSWORD="b"
        )
    )

    assert (settings.smtp_host, settings.smtp_tls, settings.smtp_user, settings.smtp_password) == (
        "relay",
        "tls",
        "a",
        "b",
    )


def test_no_secret_has_a_default():
    variables = [match for text in list_texts(COMPOSE) for match in VARIABLE.finditer(text)]

    secret = [match for match in variables if "PASSWORD" in match[1] and match[1] != "TOCSIN_SMTP_PASSWORD"]
    assert len(secret) == 4
    assert {match[2] for match in secret} == {"?"}
    with pytest.raises(KeyError, match="POSTGRES_PASSWORD"):
        substitute(TOCSIN["environment"]["TOCSIN_DATABASE_URL"])


def test_the_credentials_of_both_servers_are_those_of_the_urls():
    environment = build_environment()
    database = urlsplit(environment["TOCSIN_DATABASE_URL"])
    server = SERVICES["postgresql"]["environment"]

    assert (database.username, database.path) == (server["POSTGRES_USER"], f"/{server['POSTGRES_DB']}")
    assert database.password == substitute(server["POSTGRES_PASSWORD"], POSTGRES_PASSWORD="hunter2")
    redis_password = SERVICES["redis"]["command"][-1]
    assert urlsplit(environment["TOCSIN_REDIS_URL"]).password == substitute(
        redis_password, REDIS_PASSWORD="hunter3"
    )


def test_tocsin_has_no_privileges_and_writes_only_to_its_volume():
    assert TOCSIN["user"] == "10001:10001"
    assert TOCSIN["read_only"] is True
    assert TOCSIN["cap_drop"] == ["ALL"]
    assert TOCSIN["security_opt"] == ["no-new-privileges:true"]
    assert TOCSIN["volumes"] == ["home:/var/lib/tocsin"]
    assert {
        volume.partition(":")[0] for service in SERVICES.values() for volume in service.get("volumes", ())
    } == {*COMPOSE["volumes"]}


def test_the_image_has_the_version_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert TOCSIN["image"] == f"tocsin:{project['version']}"
