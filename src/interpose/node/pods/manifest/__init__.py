"""Manifests of pods: found, read and checked."""
