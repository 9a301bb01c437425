"""Measurements of CPU time in one process."""
