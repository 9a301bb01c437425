"""The commands of the documents work, in their order, for a person who has nothing else.

Each `sh` block of the README, of docs/getting-started.md and of the pages for operators runs, in one shell
for each page, in an empty folder, with `tocsin` on the PATH. A `console` block does not run, and the line
after it says why. A page is changed only where each reader would write something else too: the ports, so
that tests can run beside each other; the hosts of relays and databases; and the folders that only root may
write. The README and getting-started.md begin with nothing: the test answers the questions of `tocsin
init`, and acts as Bob, who is invited. The other pages find what tests/support/documents/needs.py gives
them.
"""

import contextlib
import re
import shutil
import socket
import subprocess
import sys
import threading
import urllib.parse
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from runtime.metrics import METRICS
from tests.support.documents.needs import NEEDS, OWNER, Host, have_data, require
from tests.support.documents.scripts import ROOT, build_script, list_blocks, run_script
from tests.support.mail_server import start_mailbox
from tests.support.processes import find_free_port

README = ROOT / "README.md"
START = ROOT / "docs" / "getting-started.md"
OPERATORS = ROOT / "docs" / "operators"
PAGES = sorted(OPERATORS.glob("*.md"))
DOCUMENTS = [README, START, ROOT / "docs" / "operating.md", *PAGES]
BOB = "bob@example.org"


@pytest.fixture
def host(tmp_path):
    """Return a computer with an empty home, and a folder that has only the files that pages name."""
    for name in ("home", "bin", "backups", "etc/ssl", "etc/nginx/conf.d", "var/lib"):
        (tmp_path / name).mkdir(parents=True)
    folder = tmp_path / "tocsin"
    shutil.copytree(ROOT / "deploy", folder / "deploy")
    port = find_free_port()
    programs = [tmp_path / "bin", Path(sys.executable).parent, "/usr/bin", "/bin"]
    environment = {
        "HOME": str(tmp_path / "home"),
        "PATH": ":".join(map(str, programs)),
        "LANG": "C.UTF-8",
        "TOCSIN_PORT": str(port),
    }
    with start_mailbox() as mailbox:
        yield Host(folder, environment, port, mailbox)


# Many times what a page takes: some seconds, the first hour about twenty.
TIMEOUT_S = 120.0
pytestmark = pytest.mark.timeout(TIMEOUT_S + 20)


def run_page(page, host, replaced, inputs=()):
    replaced = {"127.0.0.1:8080": f"127.0.0.1:{host.port}", **replaced}
    script = build_script(page, replaced)
    run_script(script, host.folder, host.environment, inputs, TIMEOUT_S).assert_succeeded()


def build_inputs(host):
    """Return the questions of `tocsin init`, and what a person types."""
    return [
        ("Public URL", f"http://{find_address()}:{host.port}"),
        ("Mail relay", "127.0.0.1"),
        ("Encryption", "none"),
        ("Port", str(host.mailbox.port)),
        ("Sender address", "tocsin@example.org"),
        ("Your e-mail address", OWNER),
        ("Your first and last name", ""),
        ("Account name", ""),
    ]


def find_address():
    """Return an address of this computer that other computers reach."""
    addresses = subprocess.run(["hostname", "-I"], capture_output=True, text=True, check=True).stdout.split()
    return addresses[0] if addresses else socket.gethostname()


def list_mailed(host, text=""):
    """Return the people who got a mail with this text."""
    mails = host.mailbox.mails
    return {to for to, mail in mails if text in f"{mail['Subject']}\n{mail.get_content()}"}


@contextlib.contextmanager
def let_bob_join(host):
    """Act as Bob beside a page, as soon as the invitation is here."""
    stop_event = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        bob = pool.submit(join, host.mailbox.mails, stop_event)
        try:
            yield
        finally:
            stop_event.set()
        bob.result()


def join(mails, stop_event):
    """Open the link of the invitation, press Join, then press the button for a test message."""
    while not stop_event.wait(0.1):
        if invitation := next((mail for to, mail in mails if to == BOB), None):
            link = re.search(r"http\S+/join/\S+", invitation.get_content())[0]
            for pressed in ({}, {"act": "test"}):
                with urllib.request.urlopen(
                    link, urllib.parse.urlencode(pressed).encode(), timeout=10
                ) as page:
                    assert page.status == 200
            return


def test_after_getting_started_the_right_people_have_mail(host):
    for program in ("prometheus-alertmanager", "amtool", "curl"):
        require(program)
    replaced = {"127.0.0.1:9193": f"127.0.0.1:{find_free_port()}"}

    with let_bob_join(host):
        run_page(START, host, replaced, build_inputs(host))

    assert list_mailed(host, "Disk full on db1") == {OWNER}
    assert list_mailed(host, "Disk almost full on db2") == {OWNER}
    assert list_mailed(host, "ShopSlow") == {OWNER}
    assert list_mailed(host, "ShopDown") == {BOB}
    assert list_mailed(host, "ShopRestarts") == set()
    assert list_mailed(host) == {OWNER, BOB}


def test_the_readme_ends_with_a_mail_to_its_reader(host):
    require("curl")

    run_page(README, host, {}, build_inputs(host))

    assert list_mailed(host, "Disk full on db1") == list_mailed(host) == {OWNER}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_commands_of_a_page_for_operators_work(page, host):
    require("curl")
    folders = {name: f"{host.root}{name}" for name in ("/etc/", "/var/lib/", "/backups/")}

    with NEEDS.get(page.stem, have_data)(host) as replaced:
        run_page(page, host, {**folders, **replaced})


def test_at_most_one_block_in_ten_does_not_run():
    languages = Counter(block.language for page in DOCUMENTS for block in list_blocks(page))

    assert set(languages) == {"sh", "console", "text"}
    assert languages["console"] * 10 <= languages["console"] + languages["sh"], languages


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: page.stem)
def test_each_block_that_does_not_run_says_why(page):
    silent = [
        block.line
        for block in list_blocks(page)
        if block.language == "console" and not block.after.startswith("Not run by a test: ")
    ]

    assert silent == []


def test_the_alert_rules_name_metrics_that_exist():
    text = (OPERATORS / "monitoring.md").read_text()
    (rules,) = re.findall(r"<<'END'\n(.*?)\nEND\n", text, re.DOTALL)
    gauges = (ROOT / "models" / "reports" / "metrics_page.py").read_text()

    (group,) = yaml.safe_load(rules)["groups"]
    named = {name for rule in group["rules"] for name in re.findall(r"tocsin_\w+", rule["expr"])}

    assert len(group["rules"]) > 5
    assert named <= {metric.name for metric in METRICS} | set(re.findall(r'"(tocsin_[a-z_]+)"', gauges))
