"""The state file, and the annotation of containers: what survives a restart."""
