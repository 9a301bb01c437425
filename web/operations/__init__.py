"""Health, metrics, dead letters and simulation."""
