"""What a run costs is told apart from what the machine did for others."""

import os
import subprocess
import sys

from bench.processes import Meter, OtherLoad, Process, get_cpu_seconds, list_tree
from tests.support.polling import wait_until

# Works until it is killed.
BUSY = [sys.executable, "-c", "while True: pass"]


def test_what_a_process_used_counts_though_it_has_ended():
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


def test_our_own_work_and_that_of_the_target_is_not_elsewhere():
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
