"""The systemd unit is valid, hardened, and names settings that exist."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from runtime.settings import load
from tests.support.requirements import skip_or_fail
from tocsin.commands.installation.backup import backup

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "deploy" / "tocsin.service"
# A lower number is better; services without hardening have 9.6.
MAX_EXPOSURE = 2.5


def analyze(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run systemd-analyze on the unit, with the command of this environment."""
    program = shutil.which("systemd-analyze") or skip_or_fail("systemd-analyze is not installed")
    unit = tmp_path / "tocsin.service"
    command = Path(sys.executable).with_name("tocsin")
    unit.write_text(UNIT.read_text().replace("/opt/tocsin/bin/tocsin", str(command)))
    return subprocess.run([program, *words, str(unit)], capture_output=True, text=True, timeout=30)


def test_systemd_finds_no_problem_in_the_unit(tmp_path):
    ended = analyze(tmp_path, "verify")

    assert (ended.returncode, ended.stdout + ended.stderr) == (0, "")


def test_the_exposure_is_low(tmp_path):
    ended = analyze(tmp_path, "security", "--offline=yes", "--no-pager")

    found = re.search(r"Overall exposure level for tocsin\.service: ([\d.]+)", ended.stdout)
    assert found is not None, ended.stderr
    assert float(found[1]) <= MAX_EXPOSURE


def test_the_settings_of_the_unit_exist_and_its_folder_is_the_data_folder():
    text = UNIT.read_text()
    environment = dict(line.split("=", 1) for line in re.findall(r"^Environment=(.+)$", text, re.MULTILINE))

    settings = load(environment)

    assert str(settings.home) == "/var/lib/tocsin"
    assert {"StateDirectory=tocsin", "StateDirectoryMode=0700", "UMask=0077"} <= set(text.splitlines())


@pytest.mark.parametrize("name", ["tocsin", "up"])
def test_the_unit_runs_a_command_that_exists(name):
    assert name in "".join(re.findall(r"^ExecStart=(.+)$", UNIT.read_text(), re.MULTILINE))


def test_the_timer_writes_backups_with_the_settings_of_the_unit():
    unit = (ROOT / "deploy" / "tocsin-backup.service").read_text()
    words = re.search(r"^ExecStart=/opt/tocsin/bin/tocsin (.+)$", unit, re.MULTILINE)[1].split()

    with click.Context(backup) as context:
        values, _, _ = backup.make_parser(context).parse_args(words[1:])
    assert (words[0], values["keep"]) == ("backup", "14")
    assert f"ReadWritePaths=/var/lib/tocsin {values['file']}" in unit
    for line in ("EnvironmentFile=-/etc/tocsin/tocsin.env", "Environment=TOCSIN_HOME=/var/lib/tocsin"):
        assert line in unit
        assert line in UNIT.read_text()
    assert (ROOT / "deploy" / "tocsin-backup.timer").exists()
