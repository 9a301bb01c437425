"""Simulate what an alert would cause, with the functions that notify people."""
