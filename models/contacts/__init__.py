"""Verify the contacts of people, link them at providers, and limit what messages to them cost."""
