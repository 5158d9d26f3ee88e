"""Settings of the hook server and their table."""
