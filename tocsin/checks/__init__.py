"""Checks of `tocsin check` that need no schedules: rules, alerts, settings, the Redis server."""
