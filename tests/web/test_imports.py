"""What a web process loads at its start."""

import subprocess
import sys

import pytest

# Each takes a twentieth of the start and more, and most installations never need it.
LATER = ("authlib", "icalendar", "joserfc", "webauthn")
PROGRAM = f"import sys, web.app; print(*(name for name in {LATER} if name in sys.modules))"


@pytest.mark.processes
def test_libraries_of_few_requests_are_imported_when_they_are_first_used():
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=30)

    assert (ended.stdout, ended.stderr) == ("\n", "")
