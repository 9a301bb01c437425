"""The CPU time of a run does not include the time of other processes."""

import os
import subprocess
import sys

from bench.servers.processes import Meter, OtherLoad, Process, get_cpu_seconds, list_tree
from tests.support.polling import wait_until

# Uses CPU until it is killed.
BUSY = [sys.executable, "-c", "while True: pass"]


def test_the_cpu_time_of_an_ended_process_counts():
    busy = subprocess.Popen(BUSY)
    try:
        meter = Meter(lambda: [one for one in list_tree(os.getpid()) if one.pid == busy.pid]).start()
        wait_until(lambda: get_cpu_seconds(busy.pid) > 0.1)
        meter._sample()
    finally:
        busy.kill()
        busy.wait()
    meter.stop()

    assert meter.cpu_s > 0.05


def test_the_work_of_the_sender_and_the_target_is_not_other_load():
    busy = subprocess.Popen(BUSY)
    try:
        elsewhere = OtherLoad(lambda: [Process(busy.pid, "busy")])
        wait_until(lambda: get_cpu_seconds(busy.pid) > 0.3)
        ours = elsewhere._get_own_seconds() - elsewhere._own
    finally:
        busy.kill()
        busy.wait()

    assert ours > 0.2
    assert 0 <= elsewhere.get_percent() <= 100
