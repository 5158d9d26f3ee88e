"""Topology hints of containers: what the devices and mounts of a create request are near to."""
