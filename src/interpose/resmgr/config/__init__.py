"""Where the configuration of a policy comes from, and how it changes."""
