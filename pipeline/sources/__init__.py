"""How the bodies of monitoring tools become alerts; pipeline/sources/table.py lists the tools."""
