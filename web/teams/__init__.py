"""Teams and the objects that belong to a team."""
