"""What the pages for operators find before their first command: data, running servers, names of hosts.

Each function is a context manager. It yields texts of the page with what stands there in a test.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg

from runtime.redis_socket import get_url
from tests.support.delivery.certificates import create_certificate
from tests.support.documents.scripts import run_script
from tests.support.mail_server import Mailbox
from tests.support.polling import wait_until
from tests.support.postgresql.server import running_server
from tests.support.processes import find_free_port, start_redis
from tests.support.relays import accept_login, build_server_context, relay
from tests.support.requirements import skip_or_fail

OWNER = "you@example.org"
SETTINGS = """
public_url = "https://tocsin.example.org"
owner_email = "{owner}"
smtp_host = "127.0.0.1"
smtp_port = {port}
"""
PREPARE = "from runtime.settings import load; from tocsin.server.first_start import prepare; prepare(load())"


@dataclass(frozen=True)
class Host:
    """The computer of a page: the folder of its commands, the folder above it, and its environment."""

    folder: Path
    environment: dict[str, str]
    port: int
    mailbox: Mailbox

    @property
    def root(self) -> Path:
        """Return the folder that stands for the root of the file system."""
        return self.folder.parent


def require(program: str) -> str:
    """Return the path of a program. Without it, the test is skipped, or fails in CI."""
    found = shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if found is None:
        skip_or_fail(f"{program} is not installed")
    return str(found)


def have_settings(host: Host) -> None:
    """Write the settings file into a new data folder."""
    home = host.folder / "var"
    home.mkdir(mode=0o700)
    settings = home / "tocsin.toml"
    settings.touch(mode=0o600)
    settings.write_text(SETTINGS.format(owner=OWNER, port=host.mailbox.port))


@contextlib.contextmanager
def have_data(host: Host) -> Iterator[dict[str, str]]:
    """Give what `tocsin init` and a first start leave: the settings, the first account, its keys."""
    have_settings(host)
    subprocess.run(
        [sys.executable, "-c", PREPARE], cwd=host.folder, env=host.environment, check=True, timeout=30
    )
    yield {}


@contextlib.contextmanager
def run_tocsin(host: Host) -> Iterator[dict[str, str]]:
    """Run Tocsin with its first data."""
    with have_data(host), run_in_background(host, "tocsin", "up"):
        poll_url(host, f"http://127.0.0.1:{host.port}/readyz")
        yield {}


@contextlib.contextmanager
def run_tocsin_with_mails(host: Host) -> Iterator[dict[str, str]]:
    """Run Tocsin, which receives alerts by mail."""
    port = find_free_port()
    host.environment.update({"TOCSIN_MAIL_IN_DOMAIN": "alerts.example.org", "TOCSIN_MAIL_IN_PORT": str(port)})
    with run_tocsin(host):
        poll_url(host, f"smtp://127.0.0.1:{port}")
        yield {"127.0.0.1:2525": f"127.0.0.1:{port}"}


@contextlib.contextmanager
def run_tocsin_with_alert(host: Host) -> Iterator[dict[str, str]]:
    """Run Tocsin, and send a warning, which notifies nobody."""
    with run_tocsin(host):
        key = json.loads((host.folder / "var" / "credentials.json").read_text())["integration_key"]
        url = f"http://127.0.0.1:{host.port}/api/integration/generic/{key}/"
        alert = json.dumps({"message": "Backup is late", "alert_type": "warning"})
        headers = {"Content-Type": "application/json", "Prefer": "wait=5"}
        with urllib.request.urlopen(urllib.request.Request(url, alert.encode(), headers), timeout=10):
            yield {}


@contextlib.contextmanager
def run_nginx(host: Host) -> Iterator[dict[str, str]]:
    """Run nginx with an empty configuration, which the page completes and loads."""
    data = host.root / "nginx"
    data.mkdir()
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = "".join(f"{kind}_temp_path {data}/{kind}; " for kind in kinds)
    configuration = data / "nginx.conf"
    configuration.write_text(
        f"pid {data}/pid; error_log {data}/error.log; events {{}}\n"
        f"http {{ access_log off; {temporary} include {host.root}/etc/nginx/conf.d/*.conf; }}\n"
    )
    command = host.root / "bin" / "nginx"
    command.write_text(f'#!/bin/sh\nexec {require("nginx")} -c {configuration} "$@"\n')
    command.chmod(0o700)
    port = find_free_port()
    name = "tocsin.example.org"
    certificate = create_certificate(host.root / "etc" / "ssl", name)
    (host.root / "home" / ".curlrc").write_text(
        f"connect-to = {name}:{port}:127.0.0.1:{port}\ncacert = {certificate}\n"
    )
    with have_data(host), run_in_background(host, str(command), "-g", "daemon off;"):
        wait_until((data / "pid").exists)
        yield {"listen 443": f"listen 127.0.0.1:{port}", f"https://{name}/": f"https://{name}:{port}/"}


@contextlib.contextmanager
def run_relay(host: Host) -> Iterator[dict[str, str]]:
    """Run a relay that requires STARTTLS, the user and the password of the page."""
    certificate = create_certificate(host.root / "etc" / "ssl", "localhost")
    # The file with the certificates that the system trusts.
    host.environment["SSL_CERT_FILE"] = str(certificate)
    both = host.root / "both.pem"
    both.write_text(certificate.read_text() + certificate.with_suffix(".key").read_text())
    options = {"tls_context": build_server_context(both), "require_starttls": True, "auth_required": True}
    with have_data(host), relay(authenticator=accept_login("tocsin", "secret"), **options) as box:
        yield {"mail.example.org": "localhost", "smtp_port = 587": f"smtp_port = {box.port}"}
        assert [to for to, _ in box.mails] == [OWNER]


@contextlib.contextmanager
def run_databases(host: Host) -> Iterator[dict[str, str]]:
    """Run a PostgreSQL server without the user of the page, and a Redis server.

    The data folder has settings, and keeps them.
    """
    require("psql")
    have_settings(host)
    redis = host.root / "redis"
    with running_server(durable=False) as server, start_redis(redis):
        with psycopg.connect(server.url, autocommit=True) as connected:
            connected.execute("create role postgres superuser login")
        with psycopg.connect(server.url.replace("tocsin@", "postgres@"), autocommit=True) as connected:
            connected.execute("alter role tocsin rename to first")
        where = server.url.partition("@")[2].partition("/")[0]
        yield {"db.example.org:5432": where, "redis://:secret@redis.example.org:6379/0": get_url(redis)}
    lines = (host.folder / "var" / "tocsin.toml").read_text().splitlines()
    assert f'owner_email = "{OWNER}"' in lines
    assert sum(line.startswith("database_url") for line in lines) == 1


@contextlib.contextmanager
def run_in_background(host: Host, *words: str) -> Iterator[None]:
    """Run a program beside the page."""
    program = shutil.which(words[0], path=host.environment["PATH"])
    assert program is not None
    with (host.root / "background.log").open("ab") as log:
        process = subprocess.Popen(
            [program, *words[1:]], cwd=host.folder, env=host.environment, stdout=log, stderr=log
        )
    try:
        yield
    finally:
        process.terminate()
        process.wait(20)


def poll_url(host: Host, url: str) -> None:
    script = f"until curl -sf -o /dev/null {url}; do sleep 0.1; done"
    run_script(script, host.folder, host.environment, timeout=60.0).assert_succeeded()


# What a page needs besides the data of the first start.
NEEDS = {
    "contacts": run_tocsin,
    "maintenance": run_tocsin,
    "mail": run_relay,
    "mail-in": run_tocsin_with_mails,
    "monitoring": run_tocsin,
    "not-notified": run_tocsin_with_alert,
    "people": run_tocsin,
    "postgresql": run_databases,
    "proxy": run_nginx,
    "sign-in": run_tocsin,
}
