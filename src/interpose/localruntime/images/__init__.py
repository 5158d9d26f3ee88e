"""Images of our runtime: their names, where they come from, and their layers on disk."""
