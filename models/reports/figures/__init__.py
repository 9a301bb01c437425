"""Count alerts and notifications for the figures of an account."""
