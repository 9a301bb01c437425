"""The normalizers of tools that search logs."""
