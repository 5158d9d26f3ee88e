"""Plugins without calls: what is there is brought to what should be."""
