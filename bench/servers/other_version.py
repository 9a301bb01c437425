"""Run an instance of another version: that of the code in another folder."""

from pathlib import Path

from bench.servers.instance import Instance


class OtherVersion(Instance):
    """`tocsin up` with the code in a folder, and with the packages of its `.venv`, if it has one."""

    def __init__(self, folder: Path, relay_port: int, *, code: str, **settings: str) -> None:
        super().__init__(folder, relay_port, **settings)
        # Python searches this folder before the installed packages, which can contain the other code.
        self._environment = self._environment | {"PYTHONPATH": code}
        python = Path(code) / ".venv" / "bin" / "python"
        if python.exists():
            self.python = str(python)
