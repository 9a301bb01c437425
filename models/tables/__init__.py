"""The tables, a file per noun."""
