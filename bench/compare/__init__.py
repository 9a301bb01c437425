"""Comparisons of two sides that are measured in turn: two loaders, one and two workers, much and no data."""
