"""What the processes of an installation share: leases, and the pause of a restored copy."""
