"""Docker without dockerd, and clients of its API."""
