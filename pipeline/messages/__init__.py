"""What messages say: their content, and how it is shortened and changed. Channels format it."""
