"""Global routers and alert rules."""
