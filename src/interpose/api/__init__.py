"""Public names of generated classes, for hook servers written in Python."""
