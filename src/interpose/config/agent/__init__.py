"""Settings of the agent and their table."""
