"""The commands of `tocsin`, a file per command, in folders by what they are about."""
