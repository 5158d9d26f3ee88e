"""Cgroups: one table of parameters, two versions of the kernel's files, two ways to name directories."""
