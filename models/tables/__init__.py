"""The tables, one file per noun."""
