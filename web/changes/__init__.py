"""The history of an account: its changes, and undo (contract section 4.12)."""
