"""The normalizers of the alarms of cloud providers."""
