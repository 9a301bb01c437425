"""The tables, one file for each group of tables."""
