"""Cgroups of pods and QoS classes."""
