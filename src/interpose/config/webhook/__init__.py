"""Settings of the webhook and their table."""
