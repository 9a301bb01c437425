"""Others who take alerts, run beside Tocsin on the same machine in the same run."""

from collections.abc import Callable
from contextlib import AbstractContextManager

from bench.peers import alerta, alertmanager
from bench.peers.child import PeerUnavailable
from bench.run import Target

# Name -> starts it, with the address of a PostgreSQL server for those who need one.
PEERS: dict[str, Callable[[str], AbstractContextManager[Target]]] = {
    "Alerta": alerta.start,
    "Alertmanager": alertmanager.start,
}

__all__ = ["PEERS", "PeerUnavailable"]
