"""Processes that are killed in the middle."""
