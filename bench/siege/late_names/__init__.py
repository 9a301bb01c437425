"""Run an instance in which the names of one domain resolve late."""

from pathlib import Path

from bench.servers.instance import Instance


class InstanceWithLateNames(Instance):
    """`tocsin up` with the resolver of `sitecustomize.py` in all its processes."""

    def __init__(self, folder: Path, relay_port: int, **settings: str) -> None:
        super().__init__(folder, relay_port, **settings)
        # Python imports `sitecustomize` from this folder when a process starts.
        self._environment = self._environment | {"PYTHONPATH": str(Path(__file__).parent)}
