"""Checks of `tocsin check` about the whole installation: settings, the Redis server."""
