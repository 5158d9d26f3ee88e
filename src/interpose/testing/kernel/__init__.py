"""A kernel's rules in memory, for cgroups of fake nodes."""
