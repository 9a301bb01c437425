"""Measure a running Tocsin: load, latency, cost, and whether every accepted alert was stored."""
