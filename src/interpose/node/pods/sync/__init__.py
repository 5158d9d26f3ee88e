"""Brings pods to what their manifests say: decide, act, again."""
