"""Settings of the runtime and their table."""
