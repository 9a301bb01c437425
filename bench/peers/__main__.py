"""`python -m bench.peers`: make ready what Tocsin is measured beside. What cannot be had is said."""

from bench.peers.alerta import PLACE, install
from bench.peers.alertmanager import program
from bench.peers.child import Absent


def main() -> None:
    try:
        install()
        print(f"Alerta: {PLACE}")
    except Absent as error:
        print(f"Alerta: {error}")
    print(f"Alertmanager: {program() or 'not installed; the package is prometheus-alertmanager'}")


if __name__ == "__main__":
    main()
