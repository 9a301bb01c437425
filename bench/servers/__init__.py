"""The processes that a measurement starts and watches: Tocsin, PostgreSQL, a mail server."""
