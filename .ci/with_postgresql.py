"""Run a command with TEST_DATABASE_URL leading to a PostgreSQL server that lives as long as the command.

After `--not-durable` it waits for no disk: for tests that do not ask what is left when the machine stops.
"""

import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.support.postgresql_server import running_server  # the path above comes first

durable = sys.argv[1] != "--not-durable"
command = sys.argv[1 if durable else 2 :]
with running_server(durable=durable) as server:
    environment = {**os.environ, "TEST_DATABASE_URL": server.url}
    ended = subprocess.run(command, env=environment)  # noqa: S603 - the command that was asked for
sys.exit(ended.returncode)
