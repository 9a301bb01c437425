"""The commands in docs/api.md work, and its tables match the code."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from models.domain.enums import AccountRole, TeamRole
from pipeline.sources import SOURCES
from pipeline.sources.cleaning import MESSAGE_LIMIT, PAYLOAD_DEPTH, SUMMARY_LIMIT
from pipeline.sources.prometheus import MAX_ALERTS
from tests.support.requirements import skip_or_fail
from web.app import BODY_LIMIT
from web.http import permissions
from web.http.fields import LONG_TEXT, NAME_LIMIT
from web.http.permissions import ACCOUNT_PERMISSIONS, TEAM_PERMISSIONS, Grants, is_allowed

MIB = 1024 * 1024
DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "api.md").read_text()


def test_its_limits_are_those_of_the_code():
    generic, prometheus = (SOURCES[name].max_bytes for name in ("generic", "prometheus"))
    limits = dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \| (?:4|tr|me)[^|]+\|$", TEXT, re.MULTILINE))

    assert limits["body of an alert or a ping"] == f"{generic // 1024} KiB"
    assert limits["body of Alertmanager"] == f"{prometheus // MIB} MiB and {MAX_ALERTS:,} alerts"
    assert limits["body of another request"] == f"{BODY_LIMIT // MIB} MiB"
    assert limits["`payload` of an alert"] == f"{PAYLOAD_DEPTH} levels of objects and lists"
    assert (
        limits["`message` of an alert"] == limits["title of an incident"] == f"{MESSAGE_LIMIT:,} characters"
    )
    assert limits["`summary` of an alert"] == f"{SUMMARY_LIMIT:,} characters"
    assert limits["names"] == f"{NAME_LIMIT} characters"
    assert limits["texts such as `summary` and `description`"] == f"{LONG_TEXT:,} characters"


def test_its_commands_work_one_after_another(instance, tmp_path):
    if shutil.which("curl") is None:
        skip_or_fail("curl is not installed")
    (tmp_path / "var").symlink_to(instance.home)
    script = "\n".join(re.findall("```sh\n(.*?)```", TEXT, re.DOTALL))
    script = script.replace("http://127.0.0.1:8080", f"http://127.0.0.1:{instance.port}")

    bash = ["bash", "-euo", "pipefail", "-c", script]
    straight = {**os.environ, "NO_PROXY": "*"}
    run = subprocess.run(bash, cwd=tmp_path, env=straight, capture_output=True, text=True, timeout=30)

    assert run.returncode == 0, run.stderr
    assert '"status":3' in run.stdout
    assert "<root><list-item><unique_id>" in run.stdout
    assert '"name":"Search"' in run.stdout


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
