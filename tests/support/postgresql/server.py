"""A PostgreSQL server of the tests, which they can stop and restart."""

import getpass
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from bench.servers.instance import find_free_port
from bench.servers.processes import list_tree
from tests.support.requirements import skip_or_fail


def find_programs() -> Path:
    """Return the folder of the server's programs. On some systems it is not on the PATH."""
    pg_config = shutil.which("pg_config")
    if pg_config is not None:
        folder = Path(subprocess.run([pg_config, "--bindir"], capture_output=True, text=True).stdout.strip())
        if (folder / "initdb").exists():
            return folder
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not found:
        skip_or_fail("PostgreSQL's server is not installed")
    return found[-1].parent


def find_user() -> str:
    """Return the user that runs the server. The server refuses to run as root."""
    if os.getuid() != 0:
        return getpass.getuser()
    names = {user.pw_name for user in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


class Server:
    """A server on a loopback port; `url` names a database without tables."""

    def __init__(self, folder: Path, user: str, *, durable: bool = True) -> None:
        self.folder = folder
        self._user, self._programs = user, find_programs()
        self._options = "" if durable else " -c fsync=off -c full_page_writes=off"
        self._port = find_free_port()
        self.url = f"postgresql://tocsin@127.0.0.1:{self._port}/postgres"
        self._run("initdb", "--username=tocsin", "--auth=trust", "--encoding=UTF8", "--no-sync")

    def _run(self, program: str, *words: str) -> None:
        command = [str(self._programs / program), "-D", str(self.folder / "data"), *words]
        user = self._user if os.getuid() == 0 else None
        subprocess.run(
            command,
            user=user,
            cwd=self.folder,
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            timeout=60,
        )

    def start(self) -> None:
        """Start the server and wait until it accepts connections."""
        options = f"-p {self._port} -k {self.folder} -c listen_addresses=127.0.0.1{self._options}"
        self._run("pg_ctl", "start", "-w", "-s", "-l", str(self.folder / "log"), "-o", options)

    def stop(self, mode: str) -> None:
        """Stop the server. Mode `fast` ends all connections first, `immediate` is a crash."""
        self._run("pg_ctl", "stop", "-w", "-s", "-m", mode)

    def list_pids(self) -> list[int]:
        """Return the processes of the server, the first one first."""
        first = int((self.folder / "data" / "postmaster.pid").read_text().split()[0])
        return [one.pid for one in list_tree(first)]


@contextmanager
def running_server(
    *, durable: bool = True, mount: Callable[[Path], AbstractContextManager[None]] = lambda _: nullcontext()
) -> Iterator[Server]:
    """Run a server. Its folder is outside pytest's, which only their owner may enter. With `durable`, it
    waits for the disk. `mount` may mount a file system at the folder."""
    user = find_user()
    folder = Path(tempfile.mkdtemp(prefix="tocsin-postgresql-"))
    try:
        with mount(folder):
            yield from _run_server(folder, user, durable)
    finally:
        shutil.rmtree(folder)


def _run_server(folder: Path, user: str, durable: bool) -> Iterator[Server]:
    shutil.chown(folder, user)
    server = Server(folder, user, durable=durable)
    server.start()
    try:
        yield server
    finally:
        if (folder / "data" / "postmaster.pid").exists():
            server.stop("immediate")
