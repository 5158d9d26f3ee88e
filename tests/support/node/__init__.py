"""Nodes with pods and runtimes of our own."""
