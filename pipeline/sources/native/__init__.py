"""The normalizers of tools that send a form of their own: a file for each tool."""
