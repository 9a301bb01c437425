"""Schedules, overrides, escalation policies, and who is on call."""
