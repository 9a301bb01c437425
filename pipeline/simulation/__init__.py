"""Simulate what an alert would lead to, with the functions that notify people."""
