"""The normalizers of tools that request services from outside."""
