"""Probes of containers."""
