"""Services and integrations."""
