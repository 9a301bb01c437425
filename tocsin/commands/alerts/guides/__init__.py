"""The guides of monitoring tools by family: tocsin/commands/alerts/source_guides.py lists all of them."""
