"""Run a command with TEST_DATABASE_URL leading to a PostgreSQL server that lives as long as the command."""

import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.server import running_server  # the path above comes first

with running_server() as server:
    environment = {**os.environ, "TEST_DATABASE_URL": server.url}
    ended = subprocess.run(sys.argv[1:], env=environment)  # noqa: S603 - the command that was asked for
sys.exit(ended.returncode)
