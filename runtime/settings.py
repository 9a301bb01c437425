"""The table of all settings: environment variables TOCSIN_*, read once into one frozen object."""

import ipaddress
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit


class BadSetting(ValueError):
    """A setting with which Tocsin cannot start; the text says what to change."""


def _parse_port(text: str) -> int:
    number = int(text)
    if not 0 < number < 65536:
        raise ValueError("use a port from 1 to 65535")
    return number


def _parse_optional_port(text: str) -> int:
    return _parse_port(text) if text else 0


def _parse_count(text: str) -> int:
    number = int(text)
    if not 0 < number <= 1024:
        raise ValueError("use a whole number from 1 to 1024")
    return number


def _parse_bool(text: str) -> bool:
    known = {
        "1": True,
        "true": True,
        "yes": True,
        "on": True,
        "0": False,
        "false": False,
        "no": False,
        "off": False,
    }
    try:
        return known[text.lower()]
    except KeyError:
        raise ValueError("use 1 or 0") from None


def _build_choice_parser(*choices: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(f"use one of {', '.join(choices)}")
        return text

    return parse


def _build_url_parser(*schemes: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text and not text.startswith(tuple(f"{scheme}://" for scheme in schemes)):
            raise ValueError(f"it must begin with {' or '.join(f'{scheme}://' for scheme in schemes)}")
        return text.rstrip("/")

    return parse


def _parse_redis_url(text: str) -> str:
    url = _build_url_parser("redis", "rediss", "unix")(text)
    try:
        _ = urlsplit(url).port
    except ValueError:
        # The text that is not a valid port may be a part of the password, so the error does not quote it.
        raise ValueError("its host and port cannot be read; in a password write %2F for /") from None
    return url


def _parse_switch_url(text: str) -> str:
    """Return the URL unchanged: its server may distinguish a path with a final slash from one without."""
    _build_url_parser("http", "https")(text)
    try:
        known = not text or (urlsplit(text).hostname and urlsplit(text).port != 0)
    except ValueError:
        known = False
    if not known:
        raise ValueError("its host and port cannot be read")
    if not text.isascii() or any(char <= " " or char == "\x7f" for char in text):
        raise ValueError("write blanks and characters outside ASCII as %xx")
    if "@" in urlsplit(text).netloc:
        raise ValueError("it may contain a token, but no user and password")
    return text


def _parse_period(text: str) -> int:
    seconds = int(text)
    if not 10 <= seconds <= 86_400:
        raise ValueError("use 10 to 86400 seconds")
    return seconds


def _build_days_parser(lowest: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        days = int(text)
        if not lowest <= days <= 36_500:
            raise ValueError(f"use {lowest} to 36500 days")
        return days

    return parse


def _parse_file(text: str) -> str:
    if text and not Path(text).is_file():
        raise ValueError("the file does not exist")
    return text


def _parse_networks(text: str) -> tuple[str, ...]:
    found = []
    for name in (name.strip() for name in text.split(",")):
        try:
            network = ipaddress.ip_network(name)
        except ValueError as error:
            # The library quotes the address and says what is wrong with it.
            raise ValueError(f"use networks like 10.0.0.0/8, separated by commas: {error}") from None
        if not network.prefixlen:
            raise ValueError(f"{network} has all addresses: every client could choose its own address")
        found.append(str(network))
    return tuple(found)


def _parse_optional_networks(text: str) -> tuple[str, ...]:
    return _parse_networks(text) if text.strip() else ()


# The stages after which a new queue can begin; a test compares them with the list of the pipeline.
SPLIT_AFTER = ("normalize", "route", "rules")


def _parse_stages(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    unknown = sorted(set(names) - set(SPLIT_AFTER))
    if unknown:
        raise ValueError(f"no queue can begin after {', '.join(unknown)}; use {', '.join(SPLIT_AFTER)}")
    return names


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table. `secret` values are never shown.

    `needed_by` has the names of the channels that cannot send while this setting is empty.
    """

    name: str
    default: str
    parse: Callable[[str], Any]
    meaning: str
    unit: str = ""
    secret: bool = False
    needed_by: tuple[str, ...] = ()

    @property
    def variable(self) -> str:
        return f"TOCSIN_{self.name.upper()}"


SETTINGS = (
    Setting("home", "./var", lambda text: Path(text).absolute(), "data folder"),
    Setting("host", "127.0.0.1", str, "address that web listens on"),
    Setting("port", "8080", _parse_port, "port that web listens on"),
    Setting("public_url", "", _build_url_parser("http", "https"), "URL under which users open web; default: http://HOST:PORT"),
    Setting("trusted_proxies", "", _parse_optional_networks, "networks of reverse proxies, for example 10.0.0.0/8, separated by commas: their X-Forwarded-For is believed"),
    Setting("database_url", "", _build_url_parser("postgresql", "postgres"), "PostgreSQL; empty: SQLite in the data folder", secret=True),
    Setting("redis_url", "", _parse_redis_url, "Redis; empty: Tocsin runs its own server", secret=True),
    Setting("owner_email", "owner@localhost", str, "e-mail address of the first account's owner"),
    Setting("web_threads", "64", _parse_count, "alerts that one web process handles at the same time; half as many other requests"),
    Setting("worker_threads", "8", _parse_count, "queue messages that one worker processes at the same time"),
    Setting("pipeline_queues", "", _parse_stages, "stages after which a new queue begins, separated by commas"),
    Setting("smtp_host", "", str, "mail relay; empty: Tocsin sends no e-mail", needed_by=("email", "stakeholder_mail")),
    Setting("smtp_port", "25", _parse_port, "port of the mail relay"),
    Setting("smtp_tls", "none", _build_choice_parser("none", "starttls", "tls"), "none, starttls or tls"),
    Setting("smtp_ca_file", "", _parse_file, "file with certificates to trust for the mail relay, in addition to those of the system"),
    Setting("smtp_user", "", str, "user name for the mail relay"),
    Setting("smtp_password", "", str, "password for the mail relay", secret=True),
    Setting("smtp_plain_login", "0", _parse_bool, "1: the password may be sent to the mail relay without TLS"),
    Setting("smtp_from", "tocsin@localhost", str, "sender address of e-mails"),
    Setting("open_alert_status", "0", _parse_bool, "1: the alert status operation needs no token"),
    Setting("dead_mans_switch_url", "", _parse_switch_url, "dead-man's switch: URL that Tocsin requests by GET while it is healthy; empty: off", secret=True),
    Setting("dead_mans_switch_every", "60", _parse_period, "time between two requests of the dead-man's switch", "seconds"),
    Setting("keep_alerts", "30", _build_days_parser(1), "how long alerts and their traces are kept", "days"),
    Setting("keep_notifications", "1095", _build_days_parser(0), "how long notifications, messages and delivery attempts of resolved incidents are kept; 0: for ever", "days"),
    Setting("keep_incidents", "1095", _build_days_parser(0), "how long resolved incidents, with their timeline, are kept; 0: for ever", "days"),
    Setting("metrics_port", "", _parse_optional_port, "port on which each process shows the metrics of its host; empty: off"),
    Setting("log_level", "info", _build_choice_parser("debug", "info", "warning", "error"), "debug, info, warning or error"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Settings:
    """The parsed settings of this process, with the attribute names of the table."""

    home: Path
    host: str
    port: int
    public_url: str
    trusted_proxies: tuple[str, ...]
    database_url: str
    redis_url: str
    owner_email: str
    web_threads: int
    worker_threads: int
    pipeline_queues: tuple[str, ...]
    smtp_host: str
    smtp_port: int
    smtp_tls: str
    smtp_ca_file: str
    smtp_user: str
    smtp_password: str
    smtp_plain_login: bool
    smtp_from: str
    open_alert_status: bool
    dead_mans_switch_url: str
    dead_mans_switch_every: int
    keep_alerts: int
    keep_notifications: int
    keep_incidents: int
    metrics_port: int
    log_level: str


def load(environ: Mapping[str, str] = os.environ) -> Settings:
    """Return the settings of an environment. Raise BadSetting for an unknown TOCSIN_ name or a bad value."""
    known = {setting.variable for setting in SETTINGS}
    unknown = sorted(name for name in environ if name.startswith("TOCSIN_") and name not in known)
    if unknown:
        raise BadSetting(f"unknown setting {', '.join(unknown)}; known settings: {', '.join(sorted(known))}")
    values = {
        setting.name: _parse(setting, environ.get(setting.variable, setting.default)) for setting in SETTINGS
    }
    if values["metrics_port"] == values["port"]:
        raise BadSetting("TOCSIN_METRICS_PORT cannot be used: it is the port of web (TOCSIN_PORT)")
    has_login = values["smtp_host"] and values["smtp_user"]
    if has_login and values["smtp_tls"] == "none" and not values["smtp_plain_login"]:
        raise BadSetting(
            "TOCSIN_SMTP_USER cannot be used: without TLS, everybody on the way to the mail relay can read the"
            " password. Set TOCSIN_SMTP_TLS to starttls or tls, or set TOCSIN_SMTP_PLAIN_LOGIN=1"
        )
    values["public_url"] = values["public_url"] or _build_local_url(values["host"], values["port"])
    return Settings(**values)


def find_unset(settings: Settings, channel: str) -> str | None:
    """Return the first variable that a channel needs and that is not set; None if nothing is missing."""
    needed = (setting for setting in SETTINGS if channel in setting.needed_by)
    return next((setting.variable for setting in needed if not getattr(settings, setting.name)), None)


def _parse(setting: Setting, text: str) -> Any:
    try:
        return setting.parse(text)
    except ValueError as error:
        value_text = "" if setting.secret else f" (it is {text!r})"
        raise BadSetting(f"{setting.variable} cannot be used: {error}{value_text}") from None


def _build_local_url(host: str, port: int) -> str:
    visible_host = "127.0.0.1" if host in ("", "0.0.0.0", "::") else host  # noqa: S104 - compared, not bound
    return f"http://{f'[{visible_host}]' if ':' in visible_host else visible_host}:{port}"
