"""Recordings on disk: written, rotated, found and read back."""
