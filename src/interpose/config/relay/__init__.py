"""Settings of the relay and their tables."""
