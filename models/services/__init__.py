"""Add applications to the catalogue of an account, and keep what alerts show of deleted integrations."""
