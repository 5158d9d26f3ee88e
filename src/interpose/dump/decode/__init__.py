"""Frames become messages, documents and text."""
