"""Sends what is owed (placeholder until the real one is here)."""


def drain(channel: int) -> int:
    """Send every message of a channel that is due; returns how many were tried."""
    return 0
