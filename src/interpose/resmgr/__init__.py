"""Policies in the request path: decisions about calls, updates of running containers, state."""
