"""Logs of containers as CRI writes them: read, followed and rotated."""
