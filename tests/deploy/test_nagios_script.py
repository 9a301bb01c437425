"""deploy/nagios/tocsin-notify sends what its callers set; a service that is down and up is one incident."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from models.tables.events import Event
from models.tables.incidents import Incident
from models.tables.services import Integration
from tests.support.requirements import skip_or_fail
from tests.support.web.server import run_server
from tests.web.conftest import app
from web.ingest import events
from web.ingest.fast_path import FastPath
from workers.alerts import process_lane

__all__ = ["app", "run_server"]

FOLDER = Path(__file__).parents[2] / "deploy" / "nagios"
PROBLEM = {
    "HOSTNAME": "web-1",
    "SERVICEDESC": "Disk /",
    "SERVICESTATE": "CRITICAL",
    "SERVICEOUTPUT": 'DISK "root" is full \\ 97 %\nsecond line',
    "NOTIFICATIONTYPE": "PROBLEM",
}
END = {**PROBLEM, "SERVICESTATE": "OK", "SERVICEOUTPUT": "DISK OK", "NOTIFICATIONTYPE": "RECOVERY"}


@pytest.fixture
def notify(run_server, app, world):
    """notify(*words, **environment): run the script against a server; return its exit code."""
    if shutil.which("curl") is None:
        skip_or_fail("curl")
    server = run_server()
    server.app = FastPath(app, events.commits, events.large_bodies)
    key = Integration.get_by_id(world.integration.id).integration_key
    url = f"http://127.0.0.1:{server.port}/api/integration/nagios/{key}/"

    def notify(*words, **environment):
        clean = {"PATH": os.environ["PATH"], **environment}
        done = subprocess.run([FOLDER / "tocsin-notify", url, *words], env=clean, check=False)
        process_lane.run(world.service.id)
        return done.returncode

    return notify


@pytest.mark.parametrize("prefix", ["NAGIOS", "NOTIFY"])
def test_a_service_from_the_environment_is_down_and_up(notify, prefix):
    assert notify(**{f"{prefix}_{name}": value for name, value in PROBLEM.items()}) == 0

    assert Incident.get().title == 'web-1: Disk / is CRITICAL: DISK "root" is full \\ 97 % second line'

    assert notify(**{f"{prefix}_{name}": value for name, value in END.items()}) == 0
    assert Incident.get().status == 3
    assert [event.entity_id for event in Event.select()] == ["web-1/Disk %2F"] * 2


def test_a_host_from_arguments_is_down_and_up(notify):
    host = ("host_name=web-1", "state=DOWN", "notification_type=PROBLEM", "output=no answer; `id` $(id)")

    assert notify(*host) == 0
    assert Incident.get().title == "web-1 is DOWN: no answer; `id` $(id)"

    assert notify("host_name=web-1", "state=UP", "notification_type=RECOVERY", "output=$HOSTOUTPUT$") == 0
    assert Incident.get().status == 3


def test_a_call_without_a_url_explains_itself():
    done = subprocess.run([FOLDER / "tocsin-notify"], env={"PATH": "/usr/bin:/bin"}, check=False)

    assert done.returncode == 2


def test_the_commands_of_nagios_name_the_macros_that_the_source_reads():
    text = (FOLDER / "tocsin.cfg").read_text()

    for name in ("host_name=$HOSTNAME$", "service_description=$SERVICEDESC$", "state=$SERVICESTATE$"):
        assert f"'{name}'" in text


def test_the_commands_of_icinga_name_the_macros_that_the_source_reads():
    text = (FOLDER.parent / "icinga" / "tocsin.conf").read_text()

    for name in ("host_name=$host.name$", "service_description=$service.name$", "state=$service.state$"):
        assert f'"{name}"' in text
