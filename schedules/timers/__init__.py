"""Compute which timers an incident should have."""
