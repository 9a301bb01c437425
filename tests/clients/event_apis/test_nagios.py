"""A real Nagios from Debian notifies Tocsin by the files of deploy/nagios."""

import os
import pwd
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests.clients.event_apis.conftest import ENDED
from tests.support.polling import wait_until
from tests.support.requirements import skip_or_fail

DEPLOY = Path(__file__).parents[3] / "deploy" / "nagios"
# A unit of time is a second. illegal_macro_output_chars is that of Debian.
CONFIGURATION = """
cfg_file=FOLDER/objects.cfg
cfg_file=FOLDER/tocsin.cfg
resource_file=FOLDER/resource.cfg
log_file=FOLDER/nagios.log
object_cache_file=FOLDER/objects.cache
precached_object_file=FOLDER/objects.precache
status_file=FOLDER/status.dat
temp_file=FOLDER/temporary
temp_path=FOLDER
check_result_path=FOLDER/results
lock_file=FOLDER/nagios.lock
command_file=FOLDER/command
query_socket=FOLDER/query
nagios_user=USER
nagios_group=GROUP
check_workers=1
check_external_commands=1
check_for_updates=0
retain_state_information=0
use_syslog=0
interval_length=1
host_inter_check_delay_method=n
service_inter_check_delay_method=n
cached_host_check_horizon=0
illegal_macro_output_chars=`~$&|'"<>
"""
OBJECTS = """
define timeperiod {
    timeperiod_name 24x7
    alias           Always
    sunday          00:00-24:00
    monday          00:00-24:00
    tuesday         00:00-24:00
    wednesday       00:00-24:00
    thursday        00:00-24:00
    friday          00:00-24:00
    saturday        00:00-24:00
}
define contactgroup {
    contactgroup_name admins
    alias             Administrators
    members           tocsin
}
define command {
    command_name read-state
    command_line FOLDER/read-state FOLDER/$ARG1$
}
define host {
    host_name             db1
    address               192.0.2.10
    check_command         read-state!db1
    check_interval        1
    retry_interval        1
    max_check_attempts    2
    check_period          24x7
    notification_period   24x7
    notification_interval 0
    contact_groups        admins
}
define service {
    host_name             db1
    service_description   Disk /
    check_command         read-state!disk
    check_interval        1
    retry_interval        1
    max_check_attempts    2
    check_period          24x7
    notification_period   24x7
    notification_interval 0
    contact_groups        admins
}
"""
# The first word of the file is the exit code, as of a plugin, and the others are its output.
READ_STATE = """#!/bin/sh
read -r code text < "$1"
echo "$text"
exit "$code"
"""
UP, DOWN = "0 PING OK", "2 PING CRITICAL - 100% of its 'packets' are lost"
FREE, FULL = "0 DISK OK", '2 DISK CRITICAL - "/": 400 MB free \\ 2%'


class Nagios:
    """`folder` has a file for each check, with its exit code and its output."""

    def __init__(self, folder, url):
        self.folder = folder
        self._write("objects.cfg", OBJECTS)
        self._write("resource.cfg", "")
        self._write("nagios.cfg", CONFIGURATION)
        self._write("tocsin.cfg", (DEPLOY / "tocsin.cfg").read_text().replace("'URL'", f"'{url}'"))
        self._write("read-state", READ_STATE)
        (folder / "read-state").chmod(0o700)
        (folder / "results").mkdir()
        self.let(db1=UP, disk=FREE)

    def _write(self, name, text):
        user = pwd.getpwuid(os.geteuid())
        for word, value in {
            "FOLDER": str(self.folder),
            "USER": user.pw_name,
            "GROUP": str(user.pw_gid),
            "/usr/local/bin": str(DEPLOY),
        }.items():
            text = text.replace(word, value)
        (self.folder / name).write_text(text)

    def let(self, **states):
        """Let the next checks find these states. A check reads the old or the new file, not a half of it."""
        for name, state in states.items():
            new = self.folder / f"{name}.new"
            new.write_text(f"{state}\n")
            new.rename(self.folder / name)

    def acknowledge(self, service, comment):
        """Acknowledge a problem with a comment, as the web interface of Nagios does."""
        command = f"[{int(time.time())}] ACKNOWLEDGE_SVC_PROBLEM;db1;{service};1;1;0;alice;{comment}\n"
        # Nagios reads the pipe as long as it runs.
        with (self.folder / "command").open("w") as pipe:
            pipe.write(command)


@pytest.fixture
def start_nagios(tmp_path_factory):
    """start_nagios(receiver): start a Nagios whose notifications go to this integration."""
    binary = shutil.which("nagios4", path=f"{os.environ['PATH']}:/usr/sbin")
    if binary is None or shutil.which("curl") is None:
        skip_or_fail("nagios4 or curl is not installed")
    started = []

    def start(receiver):
        # The path of its socket may have at most 107 characters, so the folder has a short name.
        nagios = Nagios(tmp_path_factory.mktemp("n"), receiver.webhook_url)
        started.append(
            subprocess.Popen(
                [binary, nagios.folder / "nagios.cfg"],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        )
        return nagios

    yield start
    for process in started:
        process.terminate()
        process.wait(10)


def test_a_host_that_is_down_opens_an_incident_which_ends_when_it_is_up(
    create_receiver, start_nagios, explain
):
    receiver = create_receiver("nagios")
    nagios = start_nagios(receiver)

    nagios.let(db1=DOWN)
    # Nagios leaves out the quotes.
    title = "db1 is DOWN: PING CRITICAL - 100% of its packets are lost"
    receiver.wait_for((title, 1))
    assert title in explain(receiver)

    nagios.let(db1=UP)
    receiver.wait_for((title, 3))
    assert ENDED in explain(receiver)


def test_a_service_that_is_critical_opens_an_incident_which_ends_when_it_is_ok(
    create_receiver, start_nagios, explain
):
    receiver = create_receiver("nagios")
    nagios = start_nagios(receiver)

    nagios.let(disk=FULL)
    title = "db1: Disk / is CRITICAL: DISK CRITICAL - /: 400 MB free \\ 2%"
    receiver.wait_for((title, 1))
    assert title in explain(receiver)

    nagios.let(disk=FREE)
    receiver.wait_for((title, 3))
    assert ENDED in explain(receiver)


def test_an_acknowledgement_acknowledges_the_incident_and_its_comment_is_no_command(
    create_receiver, start_nagios
):
    receiver = create_receiver("nagios")
    nagios = start_nagios(receiver)
    nagios.let(disk=FULL)
    receiver.await_incidents(1)

    # A shell that reads this as a command runs it before the script, so before the incident changes.
    nagios.acknowledge("Disk /", f"on it'`touch {nagios.folder}/made`'")
    wait_until(lambda: receiver.list_incidents()[0][1] == 2)
    assert not (nagios.folder / "made").exists()
