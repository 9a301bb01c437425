"""Measure a running Tocsin: load, latency, cost, and whether every alert that was accepted was kept."""
