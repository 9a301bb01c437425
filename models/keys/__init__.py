"""Create the secrets with which outgoing requests are signed."""
