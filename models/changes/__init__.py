"""The history of an account: record a change, list changes, and find what an undo writes."""
