"""The address that web listens on: claimed, shared among processes of one data folder, or refused clearly."""

import fcntl
import os
import socket

import structlog

from runtime.settings import BadSetting, Settings

log = structlog.get_logger()

BACKLOG = 1024


def listen(settings: Settings) -> socket.socket:
    """A listening socket. Web processes of one data folder share their port, others are refused it."""
    lock = os.open(settings.home / f"web-{settings.port}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        # Held until this process ends.
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        check_free(settings)
    except BlockingIOError:
        log.info("sharing the port with another web process")
    fcntl.flock(lock, fcntl.LOCK_SH)
    return _bind(settings, reuse_port=True)


def check_free(settings: Settings) -> None:
    """BadSetting when some other program listens on the port."""
    _bind(settings, reuse_port=False).close()


def _bind(settings: Settings, *, reuse_port: bool) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        sock = socket.create_server(
            (settings.host, settings.port), family=family, backlog=BACKLOG, reuse_port=reuse_port
        )
    except OSError as error:
        raise BadSetting(
            f"cannot listen on {settings.host} port {settings.port}: {error.strerror or error};"
            " set TOCSIN_HOST or TOCSIN_PORT"
        ) from None
    # Connections inherit it. The server sends head and body apart, and without it the second waits for the
    # acknowledgement of the first: 44 ms on every kept-alive connection, measured.
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setblocking(False)
    return sock
