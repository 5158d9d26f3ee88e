"""Policies for CPUs and memory nodes: topology and containers in, decisions with reasons out. Pure."""
