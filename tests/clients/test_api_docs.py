"""The commands in docs/api.md work, and its tables match the code."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from models.domain.enums import AccountRole, TeamRole
from pipeline.rules.action_table import ACTIONS
from pipeline.sources.prometheus import MAX_ALERTS
from pipeline.sources.reading.cleaning import MESSAGE_LIMIT, PAYLOAD_DEPTH, SUMMARY_LIMIT
from pipeline.sources.table import SOURCES
from tests.support.mail_server import Mailbox
from tests.support.polling import wait_until
from tests.support.processes import Running
from tests.support.requirements import skip_or_fail
from web.app import BODY_LIMIT
from web.http import permissions
from web.http.fields import LONG_TEXT, NAME_LIMIT
from web.http.permissions import ACCOUNT_PERMISSIONS, TEAM_PERMISSIONS, Grants, is_allowed
from web.http.serialization import MAX_CONTAINERS

MIB = 1024 * 1024
DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "api.md").read_text()
BLOCKS = re.findall("```sh\n(.*?)```", TEXT, re.DOTALL)
# The address of the contact that the commands create and verify.
NEW_CONTACT = "me@home.example.org"


def test_its_limits_are_those_of_the_code():
    generic, prometheus = (SOURCES[name].max_bytes for name in ("generic", "prometheus"))
    limits = dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \| (?:4|tr|me)[^|]+\|$", TEXT, re.MULTILINE))

    assert limits["body of an alert or a ping"] == f"{generic // 1024} KiB"
    assert limits["body of Alertmanager"] == f"{prometheus // MIB} MiB and {MAX_ALERTS:,} alerts"
    other = limits["body of another request"]
    assert other == f"{BODY_LIMIT // MIB} MiB and {MAX_CONTAINERS:,} objects and lists"
    assert limits["`payload` of an alert"] == f"{PAYLOAD_DEPTH} levels of objects and lists"
    assert (
        limits["`message` of an alert"] == limits["title of an incident"] == f"{MESSAGE_LIMIT:,} characters"
    )
    assert limits["`summary` of an alert"] == f"{SUMMARY_LIMIT:,} characters"
    assert limits["names"] == f"{NAME_LIMIT} characters"
    assert limits["texts such as `summary` and `description`"] == f"{LONG_TEXT:,} characters"


def find_code(mailbox: Mailbox, address: str) -> str:
    """Return the code in the mail to an address, or "" if there is none yet."""
    codes = [mail["Subject"].rpartition(" ")[2] for to, mail in mailbox.mails if to == address]
    return codes[0] if codes else ""


@pytest.fixture(scope="module")
def output(instance: Running, mailbox: Mailbox, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Run all commands one after another. When they ask for the code, enter that of the mail."""
    if shutil.which("curl") is None:
        skip_or_fail("curl is not installed")
    folder = tmp_path_factory.mktemp("commands")
    (folder / "var").symlink_to(instance.home)
    script = "\n".join(BLOCKS).replace("http://127.0.0.1:8080", f"http://127.0.0.1:{instance.port}")
    command = ["bash", "-euo", "pipefail", "-c", script]
    straight = {**os.environ, "NO_PROXY": "*"}
    with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
        bash = subprocess.Popen(
            command, cwd=folder, env=straight, stdin=subprocess.PIPE, stdout=out, stderr=err, text=True
        )
        wait_until(lambda: bash.poll() is not None or find_code(mailbox, NEW_CONTACT))
        bash.communicate(f"{find_code(mailbox, NEW_CONTACT)}\n", timeout=60)
    assert bash.returncode == 0, (folder / "out").read_text()[-2000:] + (folder / "err").read_text()
    return (folder / "out").read_text()


SHOWN = {
    "a resolved incident": '"status":3',
    "a list in XML": "<root><list-item><unique_id>",
    "a team that XML created": '"name":"Search"',
    "a rule of a router at its new position": '"name":"Tests","position":1',
    "an incident changed by alert rules": '"title":"db7: Replica is late"',
    "its summary, by another action of the rule": '"summary":"Host db7."',
    "a repeated maintenance window": '"repeat_interval":7',
    "a verified contact": '"is_verified":true',
}


# The first of these starts the instance and runs all commands.
@pytest.mark.timeout(150)
@pytest.mark.parametrize("part", SHOWN.values(), ids=SHOWN)
def test_its_commands_work_one_after_another(output, part):
    assert part in output


def test_its_recipes_have_each_action_of_an_alert_rule():
    _, _, recipe = TEXT.partition("### Alert rules, with each action")
    shown = {int(number) for number in re.findall(r'"action_type": (\d+)', recipe.partition("\n### ")[0])}

    assert shown == set(ACTIONS)


def list_rights(name: str) -> tuple[bool, bool, bool]:
    """Return whether team members have a permission, a team can give it, a custom role can give it."""
    member = Grants(AccountRole.USER, team=TeamRole.USER)
    return is_allowed(member, name), name in TEAM_PERMISSIONS, name in ACCOUNT_PERMISSIONS


def test_its_table_of_permissions_matches_the_code():
    rows = re.findall(r"^\| `(\w+)` \| (yes)? ?\| (yes)? ?\| (yes)? ?\|$", TEXT, re.MULTILINE)

    documented = {name: tuple(bool(mark) for mark in marks) for name, *marks in rows}
    assert documented == {name: list_rights(name) for name in {*ACCOUNT_PERMISSIONS, *TEAM_PERMISSIONS}}


@pytest.mark.parametrize("word", sorted(permissions.REQUIRED_ROLES))
def test_it_explains_each_word_for_a_role(word):
    assert f"`{word}`" in TEXT


def test_its_links_exist():
    assert [link for link in re.findall(r"\]\((?!http)([^)#]+)", TEXT) if not (DOCS / link).exists()] == []
