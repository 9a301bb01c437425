"""A new action of alert rules needs a line in the table and its function, and nothing else."""

import os
import subprocess
import sys
from pathlib import Path

CHECKS = Path(__file__).parent / "new_action_checks.py"
ROOT = Path(__file__).parents[3]


def test_an_action_of_the_tests_is_stored_applied_and_described():
    """A process of its own, because the schemas are built when `web` is imported."""
    options = ["-p", "tests.support.web.page_action", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *options, str(CHECKS)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}

    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout
