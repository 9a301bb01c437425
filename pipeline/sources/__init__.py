"""How the bodies of monitoring tools become alerts; pipeline/source_table.py lists the tools."""
