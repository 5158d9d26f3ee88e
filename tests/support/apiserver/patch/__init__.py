"""Patches of objects."""
