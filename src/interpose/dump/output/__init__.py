"""Calls as text, YAML, HAR and tables."""
