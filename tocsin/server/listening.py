"""Listen on the addresses of web and of mail. The processes of one data folder share them."""

import fcntl
import os
import socket
from dataclasses import dataclass
from pathlib import Path

import structlog

from runtime.setting_values import BadSetting
from runtime.settings import Settings

log = structlog.get_logger()

BACKLOG = 1024


@dataclass(frozen=True, slots=True)
class _Address:
    """An address, and the variables that change it."""

    host: str
    port: int
    variables: str


def listen(settings: Settings) -> socket.socket:
    """Return the listening socket of a web process. Web processes of one data folder share the port.

    Raise BadSetting if a process of another installation or another program uses the port.
    """
    sock = _listen(settings.home / f"web-{settings.port}.lock", _get_web(settings))
    # Connections inherit this option. The server sends head and body of an answer separately. Without the
    # option the body waits for the acknowledgement of the head: 44 ms on a kept-alive connection (measured).
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def listen_for_mail(settings: Settings) -> socket.socket:
    """Return the listening socket of a listener process for mails, as above."""
    return _listen(settings.home / f"mail-{settings.mail_in_port}.lock", _get_mail(settings))


def check_free(settings: Settings) -> None:
    """Raise BadSetting if another program listens on one of the ports."""
    _bind(_get_web(settings), reuse_port=False).close()
    if settings.mail_in_domain:
        _bind(_get_mail(settings), reuse_port=False).close()


def _get_web(settings: Settings) -> _Address:
    return _Address(settings.host, settings.port, "TOCSIN_HOST or TOCSIN_PORT")


def _get_mail(settings: Settings) -> _Address:
    return _Address(
        settings.mail_in_host, settings.mail_in_port, "TOCSIN_MAIL_IN_HOST or TOCSIN_MAIL_IN_PORT"
    )


def _listen(lock_file: Path, address: _Address) -> socket.socket:
    lock = os.open(lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        # Held until this process ends.
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _bind(address, reuse_port=False).close()
    except BlockingIOError:
        log.info("sharing the port with another process", port=address.port)
    fcntl.flock(lock, fcntl.LOCK_SH)
    return _bind(address, reuse_port=True)


def _bind(address: _Address, *, reuse_port: bool) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        sock = socket.create_server(
            (address.host, address.port), family=family, backlog=BACKLOG, reuse_port=reuse_port
        )
    except OSError as error:
        raise BadSetting(
            f"cannot listen on {address.host} port {address.port}: {error.strerror or error};"
            f" set {address.variables}"
        ) from None
    sock.setblocking(False)
    return sock
