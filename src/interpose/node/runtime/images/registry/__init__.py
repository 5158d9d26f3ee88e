"""Registries: references, tokens, pulls."""
