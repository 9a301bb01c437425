"""Sign the links and codes in messages, and read them."""
