"""The certificate with which the listener offers STARTTLS. A renewed file counts from the next connection."""

import ssl
from pathlib import Path

from runtime.late_logs import LateLogger

log = LateLogger()


class Certificate:
    """The certificate of two files, read again when one of them changes. Used in one thread."""

    def __init__(self, file: str, key: str) -> None:
        self._file = file
        self._key = key
        self._changed_at: list[int] = []
        self._context: ssl.SSLContext | None = None

    def get_context(self) -> ssl.SSLContext | None:
        """Return what TLS needs; None: there is no certificate, or it cannot be used.

        While a new file cannot be used, the one before it is.
        """
        if not self._file:
            return None
        try:
            changed_at = [Path(each).stat().st_mtime_ns for each in (self._file, self._key or self._file)]
        except OSError:
            changed_at = []
        if changed_at != self._changed_at or not changed_at:
            self._reload(changed_at)
        return self._context

    def _reload(self, changed_at: list[int]) -> None:
        is_known, self._changed_at = changed_at == self._changed_at, changed_at
        try:
            self._context = load_context(self._file, self._key)
        except OSError as error:
            if not is_known:
                log.error("the certificate cannot be used", error=type(error).__name__)


def load_context(file: str, key: str) -> ssl.SSLContext:
    """Load a certificate and its private key; without `key`, both are in one file. Raises OSError."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    # With an empty password, a key that needs one is an error, instead of a question at the terminal.
    context.load_cert_chain(file, key or None, password="")
    return context
