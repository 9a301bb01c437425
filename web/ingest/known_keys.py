"""Find out cheaply whether a key can accept alerts, before the body is parsed.

A body can cost thousands of times more than the look-up of its key. A key that was found in the store is
remembered, so that a sender's key costs one read per process. The transaction that stores the alerts looks
the key up again, and only that decides.
"""

import threading
from collections.abc import Callable

# More keys than a process sees between two restarts; a larger installation reads some of them again.
MAX_KEYS = 10_000

# Returns the account identifier of a key, or None for a key that accepts no alerts.
FindAccount = Callable[[str], str | None]


class KnownKeys:
    """The keys that the store had when they were last looked up, with their account identifiers."""

    def __init__(self, find_account: FindAccount) -> None:
        self._find_account = find_account
        self._accounts: dict[str, str] = {}
        self._lock = threading.Lock()

    def has_accepted(self, key: str, account_identifier: str | None) -> bool:
        """Return whether this key of this account was found before. Does not read the store."""
        return _is_of(self._accounts.get(key), account_identifier)

    def accepts(self, key: str, account_identifier: str | None) -> bool:
        """Return whether this key is of this account; None means any account. Raises errors of the store."""
        if self.has_accepted(key, account_identifier):
            return True
        # Not remembered, or changed since.
        account = self._find_account(key)
        self.remember(key, account)
        return _is_of(account, account_identifier)

    def get_account(self, key: str) -> str | None:
        """Return the account identifier of a key that was found before. Does not read the store."""
        return self._accounts.get(key)

    def remember(self, key: str, account: str | None) -> None:
        """Take over the result of a look-up in the store; None: the key accepts no alerts."""
        if self._accounts.get(key) == account:
            return
        with self._lock:
            self._accounts.pop(key, None)
            if account is not None:
                if len(self._accounts) >= MAX_KEYS:
                    del self._accounts[next(iter(self._accounts))]
                self._accounts[key] = account


def _is_of(account: str | None, account_identifier: str | None) -> bool:
    """Return whether a key with this account may be used with this path; None in the path: any account."""
    return account is not None and account_identifier in (None, account)
