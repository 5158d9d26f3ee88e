"""Volumes of pods."""
