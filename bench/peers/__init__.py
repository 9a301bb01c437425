"""Other systems that accept alerts, measured beside Tocsin on the same machine."""

from collections.abc import Callable
from contextlib import AbstractContextManager

from bench.peers import alerta, alertmanager
from bench.peers.child import PeerUnavailable
from bench.run import Target

# Name -> function that starts the peer; it gets the URL of a PostgreSQL server.
PEERS: dict[str, Callable[[str], AbstractContextManager[Target]]] = {
    "Alerta": alerta.start,
    "Alertmanager": alertmanager.start,
}

__all__ = ["PEERS", "PeerUnavailable"]
