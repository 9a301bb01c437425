"""What is reported about integrations: their health, and alerts that reached nobody."""
