"""Listen on the address of web. The web processes of one data folder share it."""

import fcntl
import os
import socket

import structlog

from runtime.setting_values import BadSetting
from runtime.settings import Settings

log = structlog.get_logger()

BACKLOG = 1024


def listen(settings: Settings) -> socket.socket:
    """Return a listening socket. Web processes of one data folder share the port.

    Raise BadSetting if a process of another installation or another program uses the port.
    """
    lock = os.open(settings.home / f"web-{settings.port}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        # Held until this process ends.
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        check_free(settings)
    except BlockingIOError:
        log.info("sharing the port with another process", port=settings.port)
    fcntl.flock(lock, fcntl.LOCK_SH)
    return _bind(settings, reuse_port=True)


def check_free(settings: Settings) -> None:
    """Raise BadSetting if another program listens on the port."""
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
    # Connections inherit this option. The server sends head and body of an answer separately. Without the
    # option the body waits for the acknowledgement of the head: 44 ms on a kept-alive connection (measured).
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setblocking(False)
    return sock
