"""Signals that ask a process to stop, also while it stops."""

import subprocess
import sys

PROGRAM = """
import os, signal
from runtime.signals import Signals

def work():
    signals = Signals()
    os.kill(os.getpid(), signal.SIGTERM)
    assert signals.wait(0) == {signal.SIGTERM}
    assert signals.wait(0) == set()

work()
for _ in range(3):
    os.kill(os.getpid(), signal.SIGTERM)
print("stopped")
"""


def test_another_signal_while_a_process_stops_prints_nothing():
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=30)

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "stopped\n", "")
