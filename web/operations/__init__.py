"""Health, metrics, dead letters and simulations."""
