"""Cgroups of sandboxes and containers, and what is used in them."""
