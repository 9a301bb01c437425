"""Close the connections that connection_limits.py chooses; one with an unfinished body gets 408 first."""

import ipaddress
import os
import socket
import stat
import struct
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from pathlib import Path

from tocsin.server.bodies import Body
from tocsin.server.connection_limits import Connection, Phase, choose_to_close
from web.http.failed_authentication import get_network

OPEN_FILES = Path("/proc/self/fd")
IS_SUPPORTED = hasattr(socket, "TCP_INFO") and OPEN_FILES.is_dir()

# Of struct tcp_info in linux/tcp.h: tcpi_last_data_sent and tcpi_last_data_recv, in milliseconds, both since
# the connection was opened if there was no data; and tcpi_data_segs_out, the sent segments with data.
_TCP_INFO = struct.Struct("=44xI4xI100xI")


def close_excess(
    port: int,
    limit: int,
    active: Collection[str],
    list_unfinished: Callable[[], Mapping[str, Body]] = dict,
    shared_networks: Collection[str] = (),
) -> int:
    """Close connections to the port if there are too many; return how many were closed.

    `active` has the addresses of the clients, as IP:PORT, whose requests are being answered.
    `list_unfinished` returns the bodies that are not complete, by client.
    `shared_networks`: those of proxies, behind which are many clients, as are behind the loopback address.
    """
    if not IS_SUPPORTED or sum(1 for _ in os.scandir(OPEN_FILES)) <= limit // 2:
        return 0
    unfinished = list_unfinished()
    found = list(_list_connections(port, active, unfinished))
    networks = [ipaddress.ip_network(each, strict=False) for each in shared_networks]
    chosen = choose_to_close(found, limit, partial(_find_network, networks))
    return sum(_close(each, active, unfinished.get(each.client)) for each in chosen)


def _find_network(
    shared: Collection[ipaddress.IPv4Network | ipaddress.IPv6Network], client: str
) -> str | None:
    """Return the network of a client (IP:PORT); None if many clients may have this address."""
    host = client.rpartition(":")[0].strip("[]")
    address = ipaddress.ip_address(host)
    # A socket for IPv6 also gets clients of IPv4.
    address = getattr(address, "ipv4_mapped", None) or address
    if address.is_loopback or any(address in network for network in shared):
        return None
    return get_network(str(address))


def _close(chosen: Connection, active: Collection[str], body: Body | None) -> bool:
    """Close a connection, unless it got a request or its handle became another file in the meantime.

    With an unfinished body, answer 408: the server closes the connection after this answer.
    """
    try:
        sock = _duplicate_socket(chosen.handle)
        if sock is None:
            return False
        with sock:
            age, silence, _ = _read_info(sock)
            has_changed = silence < chosen.silence_s if chosen.phase is Phase.IDLE else age < chosen.age_s
            if has_changed or chosen.client in active:
                return False
            if body is not None:
                body.cancel()
            else:
                sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        return False
    return True


def _list_connections(
    port: int, active: Collection[str], unfinished: Collection[str]
) -> Iterator[Connection]:
    """Yield the open connections to the port."""
    for file in OPEN_FILES.iterdir():
        handle = int(file.name)
        try:
            sock = _duplicate_socket(handle)
            if sock is None:
                continue
            with sock:
                if _is_open(sock) and sock.getsockname()[1] == port:
                    yield _describe(sock, handle, active, unfinished)
        except OSError:
            continue  # the file was closed in the meantime


def _describe(
    sock: socket.socket, handle: int, active: Collection[str], unfinished: Collection[str]
) -> Connection:
    client = _format_peer(sock)
    age, silence, has_sent = _read_info(sock)
    if client in active:
        phase = Phase.ANSWER
    elif client in unfinished:
        phase = Phase.BODY
    elif has_sent and silence >= age:
        phase = Phase.IDLE
    else:
        # It got bytes after the last answer, or there was no answer yet.
        phase = Phase.HEADERS
    return Connection(handle, client, phase, age, silence)


def _duplicate_socket(number: int) -> socket.socket | None:
    if not stat.S_ISSOCK(os.fstat(number).st_mode):
        return None
    return socket.socket(fileno=os.dup(number))


def _is_open(sock: socket.socket) -> bool:
    """Return whether the socket is a TCP connection with a peer."""
    if sock.type != socket.SOCK_STREAM or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return False
    try:
        return bool(sock.getpeername())
    except OSError:
        return False


def _format_peer(sock: socket.socket) -> str:
    host, port = sock.getpeername()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _read_info(sock: socket.socket) -> tuple[float, float, bool]:
    """Return the seconds since data was last sent and received, and whether any was sent."""
    info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
    sent_ms, received_ms, segments = _TCP_INFO.unpack(info)
    return sent_ms / 1000, received_ms / 1000, segments > 0
