"""Calls, frames and what they are about, as values."""
