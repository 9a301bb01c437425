"""Commands about the installation: its processes, settings, data and problems."""
