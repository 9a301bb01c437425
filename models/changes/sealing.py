"""Encrypt what the history must keep for an undo but nobody may read in the table: keys, secrets, addresses.

The key is a row of the installation (models/tables/accounts.py: Secret). A copy of the table of changes alone
tells nobody a value.
"""

from models.tables.accounts import Secret

_KEY = "history"


def encrypt(data: bytes) -> str:
    """Return these bytes as an encrypted text. Needs a write transaction."""
    # A deletion is rare, and the library takes 50 ms to import.
    from cryptography.fernet import Fernet

    key = _find_key()
    if key is None:
        new = Fernet.generate_key().decode()
        Secret.insert(name=_KEY, value=new).on_conflict_ignore().execute()
        key = _find_key() or new
    return Fernet(key).encrypt(data).decode()


def decrypt(text: str) -> bytes:
    """Return the bytes of an encrypted text. Raise ValueError if the key is missing or is another one."""
    from cryptography.fernet import Fernet, InvalidToken

    key = _find_key()
    try:
        return Fernet(key or Fernet.generate_key()).decrypt(text)
    except InvalidToken:
        raise ValueError("the key of the history is missing or is another one") from None


def _find_key() -> str | None:
    key: str | None = Secret.select(Secret.value).where(Secret.name == _KEY).scalar()
    return key
