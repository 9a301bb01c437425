"""Compare the settings of this command with those of the running processes."""

import ipaddress
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from ssl import SSLError
from urllib.parse import urlsplit

from models.contacts.toll_limits import TollLimits
from models.domain.channels import CHANNELS
from models.reports import backlog
from models.reports.delivery_problems import list_worker_values
from models.tables.sign_in import UntrustedProxy
from runtime import settings_file
from runtime.settings import Settings, find_unset_in, list_values
from tocsin.server.listener.jobs import JOBS
from tocsin.server.mail_in.certificate import load_context
from web.checks.finding import Finding
from workers.delivery.transport.text_table import FOLDER

ABOUT = "settings"
# The command found the database of the processes, whatever its folder is called on their host.
NOT_COMPARED = {"TOCSIN_HOME", "TOCSIN_USER"}
# For how long a proxy is named after its last request, and how many are named.
PROXY_SEEN = timedelta(days=1)
MAX_PROXIES = 5


def find_local_links(settings: Settings, now: datetime) -> Iterator[Finding]:
    """Find messages whose links lead to this host only."""
    for values in list_worker_values(now) or [list_values(settings)]:
        url = str(values.get("TOCSIN_PUBLIC_URL"))
        if values.get("TOCSIN_SMTP_HOST") and _is_local(url):
            what = (
                f"links in messages begin with {url}, which opens only on this host: set TOCSIN_PUBLIC_URL to"
                " the address at which phones reach Tocsin"
            )
            yield Finding("local_links", "", ABOUT, what)
            return


def _is_local(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def find_open_countries(settings: Settings) -> Iterator[Finding]:
    """Find settings with which numbers of all countries, or of none, can get SMS and calls."""
    values = list_values(settings)
    tolled = [spec for spec in CHANNELS.values() if spec.toll_units]
    titles = [spec.title for spec in tolled if find_unset_in(values, spec.name) is None]
    prefixes = TollLimits.from_settings(settings).prefixes
    advice = "list the beginnings of your numbers in TOCSIN_PHONE_PREFIXES, for example +46,+1"
    if titles and "+" in prefixes:
        what = (
            f"{' and '.join(titles)}: every country is allowed, also those with expensive numbers: {advice}"
        )
        yield Finding("open_countries", "", ABOUT, what, minor=True)
    elif titles and not prefixes:
        what = f"{' and '.join(titles)}: no country is allowed, because no sender is a number: {advice}"
        yield Finding("no_countries", "", ABOUT, what)


def find_untrusted_proxies(now: datetime) -> Iterator[Finding]:
    """Find proxies that TOCSIN_TRUSTED_PROXIES does not name."""
    table = UntrustedProxy
    rows = table.select().where(table.seen_at > now - PROXY_SEEN).order_by(table.seen_at.desc())
    if found := [row.address for row in rows.limit(MAX_PROXIES)]:
        what = (
            f"{', '.join(found)}: sent X-Forwarded-For, but TOCSIN_TRUSTED_PROXIES does not name it. If it is"
            " your proxy, add its network: until then, attempts to sign in are not limited by client"
        )
        yield Finding("untrusted_proxy", "", ABOUT, what)


def find_other_settings(settings: Settings, now: datetime) -> Iterator[Finding]:
    """Find settings with which this command and a running process differ. Values are not shown."""
    own = list_values(settings)
    kinds: dict[str, set[str]] = {}
    for process in backlog.list_live(now):
        for name, value in process.settings.items():
            if name in own and name not in NOT_COMPARED and own[name] != value:
                kinds.setdefault(name, set()).add(process.kind)
    if kinds:
        who = " and ".join(sorted(set.union(*kinds.values())))
        what = (
            f"running processes ({who}) use other values than this command of {', '.join(sorted(kinds))}:"
            f" put the right values into {settings.home / settings_file.NAME}, and restart Tocsin"
        )
        yield Finding("other_settings", "", ABOUT, what, minor=True)


def find_missing_listener(settings: Settings, now: datetime) -> Iterator[Finding]:
    """Find settings that need a listener while other processes run, and no listener has these settings."""
    living = backlog.list_live(now)
    listening = [process.settings for process in living if process.kind == "listener"]
    needing = [list_values(settings), *list_worker_values(now)]
    for job in JOBS:
        is_needed = any(job.is_needed(values) for values in needing)
        is_served = any(job.is_needed(values) for values in listening)
        if living and is_needed and not is_served:
            title = next(spec.title for spec in CHANNELS.values() if spec.name == job.name)
            verb = "are" if len(job.variables) > 1 else "is"
            what = (
                f"{title}: {' and '.join(job.variables)} {verb} set, but no listener runs with it, so Tocsin"
                f" does not receive what people press and write in {title}: restart `tocsin up`, or start"
                " `tocsin listener`"
            )
            yield Finding("no_listener", "", ABOUT, what)
    is_received = any(map(_has_mail, listening))
    if living and any(map(_has_mail, needing)) and not is_received:
        what = (
            "TOCSIN_MAIL_IN_DOMAIN is set, but no listener runs with it, so Tocsin receives no alerts by"
            " mail: restart `tocsin up`, or start `tocsin listener`"
        )
        yield Finding("no_listener", "", ABOUT, what)


def _has_mail(values: Mapping[str, object]) -> bool:
    return bool(values.get("TOCSIN_MAIL_IN_DOMAIN"))


def find_bad_certificate(settings: Settings) -> Iterator[Finding]:
    """Find a certificate for mails that cannot be used: the listener then offers no STARTTLS."""
    if not (settings.mail_in_domain and settings.mail_in_certificate):
        return
    try:
        load_context(settings.mail_in_certificate, settings.mail_in_key)
    except OSError as error:
        problem = error.strerror if not isinstance(error, SSLError) else "it is no certificate with its key"
        what = (
            f"the certificate {settings.mail_in_certificate} cannot be used ({problem}), so mails come"
            " without TLS: check TOCSIN_MAIL_IN_CERTIFICATE and TOCSIN_MAIL_IN_KEY"
        )
        yield Finding("bad_certificate", "", ABOUT, what)


def find_template_findings(settings: Settings) -> Iterator[Finding]:
    """Find templates in the data folder that fail. Messages then have the default text."""
    if not (settings.home / FOLDER).is_dir():
        return
    from pipeline.messages.examples import build_examples
    from workers.delivery.transport.texts import find_template_problems

    for file, problem in find_template_problems(settings.home, build_examples()):
        path = settings.home / FOLDER / file
        what = f"the template {path} is not used, messages have the default text: {problem}"
        yield Finding("bad_template", "", f"template {file}", what)
