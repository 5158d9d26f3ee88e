"""The policies static and what static-plus shares with it."""
