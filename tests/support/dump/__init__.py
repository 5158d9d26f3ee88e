"""Calls and recordings without a relay."""
