"""Clusters, and manifests held against schemas."""
