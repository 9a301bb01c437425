"""Run a command with TEST_DATABASE_URL, and with a PostgreSQL server that runs as long as the command.

With `--not-durable`, the server does not wait for the disk: for tests that do not test durability.
"""

import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.support.postgresql.server import running_server  # the path above comes first

durable = sys.argv[1] != "--not-durable"
command = sys.argv[1 if durable else 2 :]
with running_server(durable=durable) as server:
    environment = {**os.environ, "TEST_DATABASE_URL": server.url}
    ended = subprocess.run(command, env=environment)  # noqa: S603 - the command line of the user
sys.exit(ended.returncode)
