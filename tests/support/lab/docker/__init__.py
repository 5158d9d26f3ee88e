"""dockerd and its command line."""
