"""Policies over fake runtimes and machines."""
