"""`python -m bench.peers`: install the peers of Tocsin, and report those that cannot be installed."""

from bench.peers.alerta import INSTALL_DIR, install
from bench.peers.alertmanager import find_program
from bench.peers.child import PeerUnavailable


def main() -> None:
    try:
        install()
        print(f"Alerta: {INSTALL_DIR}")
    except PeerUnavailable as error:
        print(f"Alerta: {error}")
    print(f"Alertmanager: {find_program() or 'not installed; the package is prometheus-alertmanager'}")


if __name__ == "__main__":
    main()
