"""Plugins in the way of calls, asked by a relay."""
