"""Pods run by `interpose pod`, and what became of them."""
