"""The commands of `tocsin`, a file per command."""
