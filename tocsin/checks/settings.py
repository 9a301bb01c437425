"""Compare the settings of this command with those of the running processes."""

import ipaddress
from collections.abc import Iterator
from datetime import datetime
from urllib.parse import urlsplit

from models.reports import backlog
from models.reports.delivery_problems import list_worker_values
from runtime import settings_file
from runtime.settings import Settings, list_values
from tocsin.checks.finding import Finding

ABOUT = "settings"
# The command found the database of the processes, whatever its folder is called on their host.
NOT_COMPARED = {"TOCSIN_HOME"}


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


def find_other_settings(settings: Settings, now: datetime) -> Iterator[Finding]:
    """Find settings with which this command and a running process differ. Values are not shown."""
    own = list_values(settings)
    kinds: dict[str, set[str]] = {}
    for process in backlog.list_live(now):
        for name, value in (process.settings or {}).items():
            if name in own and name not in NOT_COMPARED and own[name] != value:
                kinds.setdefault(name, set()).add(process.kind)
    if kinds:
        who = " and ".join(sorted(set.union(*kinds.values())))
        what = (
            f"running processes ({who}) use other values than this command of {', '.join(sorted(kinds))}:"
            f" put the right values into {settings.home / settings_file.NAME}, and restart Tocsin"
        )
        yield Finding("other_settings", "", ABOUT, what, minor=True)
