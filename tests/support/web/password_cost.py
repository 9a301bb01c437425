"""Passwords of tests cost little. In production, an attempt to sign in checks five of them: 0.15 s."""

from argon2 import PasswordHasher

from models.sign_in import passwords

# That of production.
HASHER = passwords._HASHER


def lower() -> None:
    """Let the checks of this process cost almost nothing."""
    passwords._HASHER = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
