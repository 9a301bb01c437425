"""Compute who is on call, now and over time."""
