"""The table of all settings: environment variables TOCSIN_*, and the same names in tocsin.toml.

They are read once into one frozen object.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runtime import data_folder, settings_file
from runtime.setting_values import (
    BadSetting,
    build_choice_parser,
    build_number_parser,
    build_url_parser,
    parse_bool,
    parse_count,
    parse_email,
    parse_file,
    parse_folder,
    parse_groups,
    parse_host,
    parse_issuer,
    parse_mail_domain,
    parse_optional_networks,
    parse_optional_port,
    parse_port,
    parse_prefixes,
    parse_redis_url,
    parse_sender,
    parse_stages,
    parse_switch_url,
    parse_text,
    parse_webhook_networks,
    parse_webhook_secret,
)


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
    Setting("home", "./var", parse_folder, "data folder"),
    Setting("host", "127.0.0.1", parse_host, "address that web listens on"),
    Setting("port", "8080", parse_port, "port that web listens on"),
    Setting("public_url", "", build_url_parser("http", "https"), "URL under which users open web; default: http://HOST:PORT"),
    Setting("trusted_proxies", "", parse_optional_networks, "networks of reverse proxies, for example 10.0.0.0/8, separated by commas: their X-Forwarded-For is believed"),
    Setting("database_url", "", build_url_parser("postgresql", "postgres"), "PostgreSQL; empty: SQLite in the data folder", secret=True),
    Setting("redis_url", "", parse_redis_url, "Redis; empty: Tocsin runs its own server", secret=True),
    Setting("user", "", parse_text, "e-mail address or username of the person who runs commands on this host: for `tocsin incidents --mine`, and the author of their changes"),
    Setting("owner_email", "owner@localhost", parse_email, "e-mail address of the first account's owner; applied when it is set or changed"),
    Setting("web_threads", "64", parse_count, "alerts that one web process handles at the same time; half as many other requests"),
    Setting("worker_threads", "4", parse_count, "queue messages that one worker processes at the same time"),
    Setting("pipeline_queues", "", parse_stages, "stages after which a new queue begins, separated by commas"),
    Setting("smtp_host", "", parse_host, "mail relay; empty: Tocsin sends no e-mail", needed_by=("email", "stakeholder_mail")),
    Setting("smtp_port", "25", parse_port, "port of the mail relay"),
    Setting("smtp_tls", "none", build_choice_parser("none", "starttls", "tls"), "none, starttls or tls"),
    Setting("smtp_ca_file", "", parse_file, "file with certificates to trust for the mail relay, in addition to those of the system"),
    Setting("smtp_user", "", parse_text, "user name for the mail relay"),
    Setting("smtp_password", "", parse_text, "password for the mail relay", secret=True),
    Setting("smtp_plain_login", "0", parse_bool, "1: the password may be sent to the mail relay without TLS"),
    Setting("smtp_from", "tocsin@localhost", parse_sender, "sender address of e-mails"),
    Setting("smtp_bounces", "0", parse_bool, "1: mails that cannot be delivered come back to addresses of TOCSIN_MAIL_IN_DOMAIN, where `tocsin listener` reads them"),
    Setting("mail_limit", "60", build_number_parser(1, 1_000_000, "mails"), "mails that an address gets in a minute; more incidents are in one later mail", "mails"),
    Setting("twilio_url", "https://api.twilio.com", build_url_parser("https", "http"), "interface of the provider of SMS and phone calls: Twilio, or one with the same interface"),
    Setting("twilio_account_sid", "", parse_text, "Account SID at that provider; empty: Tocsin sends no SMS and calls nobody", needed_by=("sms", "phone")),
    Setting("twilio_auth_token", "", parse_text, "Auth Token of that account; it also signs the callbacks", secret=True, needed_by=("sms", "phone")),
    Setting("twilio_sms_from", "", parse_text, "number with + and the country code, or Messaging Service (MG...), that sends SMS", needed_by=("sms",)),
    Setting("twilio_call_from", "", parse_text, "number with + and the country code that calls", needed_by=("phone",)),
    Setting("twilio2_url", "https://api.twilio.com", build_url_parser("https", "http"), "interface of the second provider, which takes over while the first one cannot be used"),
    Setting("twilio2_account_sid", "", parse_text, "Account SID at the second provider; empty: there is none"),
    Setting("twilio2_auth_token", "", parse_text, "Auth Token of that account", secret=True),
    Setting("twilio2_sms_from", "", parse_text, "number or Messaging Service that sends SMS at the second provider"),
    Setting("twilio2_call_from", "", parse_text, "number that calls at the second provider"),
    Setting("ntfy_url", "https://ntfy.sh", build_url_parser("http", "https"), "ntfy server of contacts that are only the name of a topic"),
    Setting("ntfy_token", "", parse_text, "access token for that ntfy server", secret=True),
    Setting("webhook_networks", "", parse_webhook_networks, "networks besides the internet to which URLs of users may lead, for example 10.1.2.0/24, separated by commas"),
    Setting("phone_prefixes", "", parse_prefixes, "beginnings of the phone numbers that may get SMS and calls, separated by commas, for example +46,+1; empty: those of the countries of the numbers that send; +: all but expensive ranges"),
    Setting("phone_daily_limit", "200", build_number_parser(0, 1_000_000), "what an account may use for SMS and calls within 24 hours: an SMS is 1, a call 3; 0: no limit"),
    Setting("slack_bot_token", "", parse_text, "token of the Slack app's bot (xoxb-...); empty: Tocsin sends nothing to Slack", secret=True, needed_by=("slack",)),
    Setting("slack_signing_secret", "", parse_text, "signing secret of the Slack app: callbacks of Slack are checked with it; empty: they are refused", secret=True),
    Setting("slack_app_token", "", parse_text, "app-level token of the Slack app (xapp-...): `tocsin listener` gets callbacks over a connection (Socket Mode); empty: Slack sends them to web", secret=True),
    Setting("slack_url", "https://slack.com/api", build_url_parser("http", "https"), "URL of Slack's Web API"),
    Setting("telegram_token", "", parse_text, "token of the Telegram bot; empty: Tocsin sends nothing to Telegram", secret=True, needed_by=("telegram",)),
    Setting("telegram_webhook_secret", "", parse_webhook_secret, "secret with which Telegram signs what it sends to web; empty: `tocsin listener` asks Telegram for it (polling)", secret=True),
    Setting("telegram_url", "https://api.telegram.org", build_url_parser("http", "https"), "URL of Telegram's Bot API"),
    Setting("mail_in_domain", "", parse_mail_domain, "alerts by mail: `tocsin listener` receives those to KEY@DOMAIN, with the key of an integration and this domain; empty: none"),
    Setting("mail_in_host", "127.0.0.1", parse_host, "address on which the listener receives mails"),
    Setting("mail_in_port", "2525", parse_port, "port on which the listener receives mails"),
    Setting("mail_in_certificate", "", parse_file, "file with the certificate chain (PEM) with which the listener offers STARTTLS; empty: it does not"),
    Setting("mail_in_key", "", parse_file, "file with the private key of that certificate; empty: the same file has it"),
    Setting("oidc_issuer", "", parse_issuer, "OpenID provider with which people sign in to the pages: its issuer, with https; empty: none"),
    Setting("oidc_name", "OpenID Connect", parse_text, "name of the OpenID provider on the sign-in page"),
    Setting("oidc_client_id", "", parse_text, "client ID of Tocsin at the OpenID provider; its redirect URI is TOCSIN_PUBLIC_URL with /sign-in/provider/callback/"),
    Setting("oidc_client_secret", "", parse_text, "client secret of Tocsin at the OpenID provider; empty: a public client", secret=True),
    Setting("oidc_groups", "", parse_groups, "groups of the OpenID provider whose people join a team, for example sre=Payments,dba=Databases"),
    Setting("open_alert_status", "0", parse_bool, "1: the alert status operation needs no token"),
    Setting("dead_mans_switch_url", "", parse_switch_url, "dead-man's switch: URL that Tocsin requests by GET while it is healthy; empty: off", secret=True),
    Setting("dead_mans_switch_every", "60", build_number_parser(10, 86_400, "seconds"), "time between two requests of the dead-man's switch", "seconds"),
    Setting("keep_alerts", "30", build_number_parser(1, 36_500, "days"), "how long alerts and their traces are kept", "days"),
    Setting("keep_notifications", "1095", build_number_parser(0, 36_500, "days"), "how long notifications, messages and delivery attempts of resolved incidents are kept; 0: for ever", "days"),
    Setting("keep_incidents", "1095", build_number_parser(0, 36_500, "days"), "how long resolved incidents, with their timeline, are kept; 0: for ever", "days"),
    Setting("keep_changes", "400", build_number_parser(1, 36_500, "days"), "how long the history of the configuration and the audit list are kept", "days"),
    Setting("metrics_port", "", parse_optional_port, "port on which each process shows the metrics of its host; empty: off"),
    Setting("debug", "0", parse_bool, "1: the page /style/ shows the components of pages; for those who change them"),
    Setting("log_level", "info", build_choice_parser("debug", "info", "warning", "error"), "debug, info, warning or error"),
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
    user: str
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
    smtp_bounces: bool
    mail_limit: int
    twilio_url: str
    twilio_account_sid: str
    twilio_auth_token: str
    twilio_sms_from: str
    twilio_call_from: str
    twilio2_url: str
    twilio2_account_sid: str
    twilio2_auth_token: str
    twilio2_sms_from: str
    twilio2_call_from: str
    ntfy_url: str
    ntfy_token: str
    webhook_networks: tuple[str, ...]
    phone_prefixes: tuple[str, ...]
    phone_daily_limit: int
    slack_bot_token: str
    slack_signing_secret: str
    slack_app_token: str
    slack_url: str
    telegram_token: str
    telegram_webhook_secret: str
    telegram_url: str
    mail_in_domain: str
    mail_in_host: str
    mail_in_port: int
    mail_in_certificate: str
    mail_in_key: str
    oidc_issuer: str
    oidc_name: str
    oidc_client_id: str
    oidc_client_secret: str
    oidc_groups: tuple[tuple[str, str], ...]
    open_alert_status: bool
    dead_mans_switch_url: str
    dead_mans_switch_every: int
    keep_alerts: int
    keep_notifications: int
    keep_incidents: int
    keep_changes: int
    metrics_port: int
    debug: bool
    log_level: str


@dataclass(frozen=True, slots=True)
class Given:
    """The text of a setting and where it is from. `name` is what an error calls the setting."""

    text: str
    source: str
    name: str


DEFAULT, ENVIRONMENT, FILE = "default", "environment", "file"


def load(environ: Mapping[str, str] = os.environ) -> Settings:
    """Return the settings of an environment and of the file in its data folder. Raise BadSetting.

    The environment wins. An unknown name in either is an error.
    """
    return parse_settings(read_given(environ))


def read_given(environ: Mapping[str, str] = os.environ) -> dict[str, Given]:
    """Return the text of each setting: from the environment, else from the file, else the default."""
    _require_known(environ)
    home = _parse(SETTINGS[0], _read_one(SETTINGS[0], environ, {}, ""))
    path = home / settings_file.NAME
    in_file = _read_file(path, environ)
    return {setting.name: _read_one(setting, environ, in_file, str(path)) for setting in SETTINGS}


def _read_file(path: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the texts in the settings file. Raise BadSetting, also if another user owns its folder.

    With PostgreSQL in the environment, a command needs no data folder. Then it reads no file of another user.
    Processes need the folder, and refuse that of another user themselves.
    """
    if environ.get("TOCSIN_DATABASE_URL") and data_folder.is_of_another_user(path.parent):
        return {}
    data_folder.check(path.parent)
    return settings_file.read(path, [setting.name for setting in SETTINGS])


def _require_known(environ: Mapping[str, str]) -> None:
    known = [setting.variable for setting in SETTINGS]
    unknown = sorted(name for name in environ if name.startswith("TOCSIN_") and name not in known)
    if unknown:
        raise BadSetting("; ".join(settings_file.describe_unknown(name, known) for name in unknown))


def _read_one(setting: Setting, environ: Mapping[str, str], in_file: Mapping[str, str], path: str) -> Given:
    # Tools that start containers set a variable without a value to an empty text.
    if environ.get(setting.variable):
        return Given(environ[setting.variable], ENVIRONMENT, setting.variable)
    if setting.name in in_file:
        return Given(in_file[setting.name], FILE, f"{setting.name} in {path}")
    return Given(setting.default, DEFAULT, setting.variable)


def parse_settings(given: Mapping[str, Given]) -> Settings:
    """Return the parsed settings. Raise BadSetting."""
    values = {setting.name: _parse(setting, given[setting.name]) for setting in SETTINGS}
    if values["metrics_port"] == values["port"]:
        raise BadSetting(
            f"{given['metrics_port'].name} must be another port than that of web (TOCSIN_PORT);"
            f" it is {given['metrics_port'].text!r}"
        )
    has_login = values["smtp_host"] and values["smtp_user"]
    if has_login and values["smtp_tls"] == "none" and not values["smtp_plain_login"]:
        raise BadSetting(
            f"{given['smtp_user'].name} needs TLS: without it, everybody on the way to the mail relay can read"
            " the password. Set TOCSIN_SMTP_TLS to starttls or tls, or set TOCSIN_SMTP_PLAIN_LOGIN=1"
        )
    if values["smtp_bounces"] and not values["mail_in_domain"]:
        raise BadSetting(
            f"{given['smtp_bounces'].name} needs TOCSIN_MAIL_IN_DOMAIN: mails come back to addresses of this domain"
        )
    if bool(values["twilio2_account_sid"]) != bool(values["twilio2_auth_token"]):
        raise BadSetting(
            f"{given['twilio2_account_sid'].name} and {given['twilio2_auth_token'].name} must both be set, or"
            " neither: without one of them, the second provider takes over nothing"
        )
    values["public_url"] = values["public_url"] or _build_local_url(values["host"], values["port"])
    return Settings(**values)


def list_values(settings: Settings) -> dict[str, object]:
    """Return the values as JSON, by variable. Of a secret, only whether it is set."""
    return {setting.variable: _to_json(setting, getattr(settings, setting.name)) for setting in SETTINGS}


def _to_json(setting: Setting, value: object) -> object:
    if setting.secret:
        return bool(value)
    if isinstance(value, tuple):
        return list(value)
    return str(value) if isinstance(value, Path) else value


def find_unset(settings: Settings, channel: str) -> str | None:
    """Return the first variable that a channel needs and that is not set; None if nothing is missing."""
    return find_unset_in(list_values(settings), channel)


def find_unset_in(values: Mapping[str, object], channel: str) -> str | None:
    """Do the same with the values of list_values()."""
    needed = (setting.variable for setting in SETTINGS if channel in setting.needed_by)
    return next((variable for variable in needed if not values.get(variable)), None)


def needs_listener(settings: Settings) -> bool:
    """Return whether a channel (tocsin/server/listener/jobs.py) or mail needs a listener process."""
    return needs_listener_in(list_values(settings))


def needs_listener_in(values: Mapping[str, object]) -> bool:
    """Do the same with the values of list_values()."""
    needed = (("TOCSIN_TELEGRAM_TOKEN",), ("TOCSIN_SLACK_APP_TOKEN", "TOCSIN_SLACK_BOT_TOKEN"))
    return any(all(map(values.get, names)) for names in (*needed, ("TOCSIN_MAIL_IN_DOMAIN",)))


def _parse(setting: Setting, given: Given) -> Any:
    try:
        return setting.parse(given.text)
    except ValueError as error:
        value_text = "" if setting.secret else f"; it is {given.text!r}"
        raise BadSetting(f"{given.name} must {error}{value_text}") from None


# Where this host reaches a process that listens on all its addresses. With ::, it listens on IPv6 only.
_LOCAL_ADDRESSES = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared, not bound


def find_local_address(host: str) -> str:
    """Return the address at which this host reaches a process that listens on `host`."""
    return _LOCAL_ADDRESSES.get(host, host)


def _build_local_url(host: str, port: int) -> str:
    address = find_local_address(host)
    return f"http://{f'[{address}]' if ':' in address else address}:{port}"
