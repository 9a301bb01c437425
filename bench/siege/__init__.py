"""Measure what one tenant can do to another: costly input of every kind at the same time, on loopback."""
