"""Incidents and what belongs to one."""
