"""Every setting, in one table: environment variables TOCSIN_*, read once into one frozen object."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit


class BadSetting(ValueError):
    """A setting that stops the start; the text says what to change."""


def _parse_port(text: str) -> int:
    number = int(text)
    if not 0 < number < 65536:
        raise ValueError("a port lies between 1 and 65535")
    return number


def _parse_count(text: str) -> int:
    number = int(text)
    if not 0 < number <= 1024:
        raise ValueError("a whole number from 1 to 1024")
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
            raise ValueError(f"one of {', '.join(choices)}")
        return text

    return parse


def _build_url_parser(*schemes: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text and not text.startswith(tuple(f"{scheme}://" for scheme in schemes)):
            raise ValueError(f"begins with {' or '.join(f'{scheme}://' for scheme in schemes)}")
        return text.rstrip("/")

    return parse


def _parse_redis_url(text: str) -> str:
    url = _build_url_parser("redis", "rediss", "unix")(text)
    try:
        _ = urlsplit(url).port
    except ValueError:
        # What cannot be read as a port may be a part of the password.
        raise ValueError("its host and port cannot be read; in a password %2F stands for /") from None
    return url


def _parse_switch_url(text: str) -> str:
    """Kept to the letter: a slash at its end may mean something to whoever serves it."""
    _build_url_parser("http", "https")(text)
    try:
        known = not text or (urlsplit(text).hostname and urlsplit(text).port != 0)
    except ValueError:
        known = False
    if not known:
        raise ValueError("its host and port cannot be read")
    if not text.isascii() or any(char <= " " or char == "\x7f" for char in text):
        raise ValueError("blanks and signs beyond ASCII stand in it as %xx")
    if "@" in urlsplit(text).netloc:
        raise ValueError("it may hold a token, but no user and password")
    return text


def _parse_period(text: str) -> int:
    seconds = int(text)
    if not 10 <= seconds <= 86_400:
        raise ValueError("from 10 seconds to a day")
    return seconds


def _parse_file(text: str) -> str:
    if text and not Path(text).is_file():
        raise ValueError("there is no such file")
    return text


# The stages that may have a queue behind them; a test compares them with the pipeline's own list.
SPLIT_AFTER = ("normalize", "route", "rules")


def _parse_stages(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    unknown = sorted(set(names) - set(SPLIT_AFTER))
    if unknown:
        raise ValueError(f"no queue can begin after {', '.join(unknown)}; possible: {', '.join(SPLIT_AFTER)}")
    return names


@dataclass(frozen=True, slots=True)
class Setting:
    """One line of the table. `secret` values are never shown."""

    name: str
    default: str
    parse: Callable[[str], Any]
    meaning: str
    unit: str = ""
    secret: bool = False

    @property
    def variable(self) -> str:
        return f"TOCSIN_{self.name.upper()}"


SETTINGS = (
    Setting("home", "./var", lambda text: Path(text).absolute(), "folder of the data"),
    Setting("host", "127.0.0.1", str, "address that web listens on"),
    Setting("port", "8080", _parse_port, "port that web listens on"),
    Setting("public_url", "", _build_url_parser("http", "https"), "how users reach web; default http://HOST:PORT"),
    Setting("database_url", "", _build_url_parser("postgresql", "postgres"), "PostgreSQL; empty: SQLite in the data folder", secret=True),
    Setting("redis_url", "", _parse_redis_url, "Redis; empty: Tocsin runs its own", secret=True),
    Setting("owner_email", "owner@localhost", str, "e-mail address of the first account's owner"),
    Setting("web_threads", "64", _parse_count, "requests that web works on at once"),
    Setting("worker_threads", "8", _parse_count, "messages that a worker works on at once"),
    Setting("pipeline_queues", "", _parse_stages, "stages after which an alert's road gets another queue, by commas"),
    Setting("smtp_host", "", str, "mail relay; empty: nobody can be told by e-mail"),
    Setting("smtp_port", "25", _parse_port, "port of the mail relay"),
    Setting("smtp_tls", "none", _build_choice_parser("none", "starttls", "tls"), "none, starttls or tls"),
    Setting("smtp_ca_file", "", _parse_file, "certificates to trust besides the system's, for the mail relay"),
    Setting("smtp_user", "", str, "user at the mail relay"),
    Setting("smtp_password", "", str, "password at the mail relay", secret=True),
    Setting("smtp_from", "tocsin@localhost", str, "sender of e-mail"),
    Setting("open_alert_status", "0", _parse_bool, "1: the alert status operation answers without a token"),
    Setting("dead_mans_switch_url", "", _parse_switch_url, "pinged while Tocsin is well, by GET; empty: nobody is told when it is not", secret=True),
    Setting("dead_mans_switch_every", "60", _parse_period, "how often it is", "seconds"),
    Setting("log_level", "info", _build_choice_parser("debug", "info", "warning", "error"), "debug, info, warning or error"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Settings:
    """What this process was told; attribute names are those of the table."""

    home: Path
    host: str
    port: int
    public_url: str
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
    smtp_from: str
    open_alert_status: bool
    dead_mans_switch_url: str
    dead_mans_switch_every: int
    log_level: str


def load(environ: Mapping[str, str] = os.environ) -> Settings:
    """The settings of an environment. BadSetting for an unknown TOCSIN_ name or a value that cannot be."""
    known = {setting.variable for setting in SETTINGS}
    unknown = sorted(name for name in environ if name.startswith("TOCSIN_") and name not in known)
    if unknown:
        raise BadSetting(f"unknown setting {', '.join(unknown)}; known are: {', '.join(sorted(known))}")
    values = {
        setting.name: _parse(setting, environ.get(setting.variable, setting.default)) for setting in SETTINGS
    }
    values["public_url"] = values["public_url"] or _build_local_url(values["host"], values["port"])
    return Settings(**values)


def get_delivery_problem(settings: Settings) -> str | None:
    """Why nobody can be told, by these settings; None where they say how."""
    return None if settings.smtp_host else "nobody can be told by e-mail: TOCSIN_SMTP_HOST is not set"


def _parse(setting: Setting, text: str) -> Any:
    try:
        return setting.parse(text)
    except ValueError as error:
        value_text = "" if setting.secret else f" (it is {text!r})"
        raise BadSetting(f"{setting.variable} cannot be used: {error}{value_text}") from None


def _build_local_url(host: str, port: int) -> str:
    visible_host = "127.0.0.1" if host in ("", "0.0.0.0", "::") else host  # noqa: S104 - compared, not bound
    return f"http://{f'[{visible_host}]' if ':' in visible_host else visible_host}:{port}"
