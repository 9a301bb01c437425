"""Incidents, and the notes, tags, tasks, responders, roles and timeline of an incident."""
