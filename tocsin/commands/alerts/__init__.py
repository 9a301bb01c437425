"""Commands about alerts and incidents: what happened, what would happen, and dead letters."""
