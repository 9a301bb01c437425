"""Resolve the names of one domain late, as a resolver does whose name servers do not answer.

The settings of the system's resolver belong to all programs of a machine. So this replaces only the function
that asks it, in the processes of an instance. Like that function, it blocks its thread and cannot be ended.
"""

import socket
import threading

LATE_DOMAIN = "late.invalid"
# Longer than a message may take, and than the usual settings of a resolver with three name servers.
LATE_S = 120.0

_resolve = socket.getaddrinfo
_never = threading.Event()


def resolve(
    host: bytes | str | None,
    port: bytes | str | int | None,
    family: int = 0,
    type: int = 0,
    proto: int = 0,
    flags: int = 0,
) -> object:
    """Return what the system answers. A name of the domain is unknown, after a long time."""
    if str(host).endswith(f".{LATE_DOMAIN}") and not flags & socket.AI_NUMERICHOST:
        _never.wait(LATE_S)
        raise socket.gaierror(socket.EAI_AGAIN, "no name server answers")
    return _resolve(host, port, family, type, proto, flags)


setattr(socket, "getaddrinfo", resolve)  # noqa: B010 - the types of the results are only declared
