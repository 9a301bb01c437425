"""Compute whom an escalation policy notifies, when, and through which contacts."""
