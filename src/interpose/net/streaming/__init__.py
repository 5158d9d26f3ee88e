"""Exec, attach and port forwarding over the URL that a runtime hands out: SPDY/3.1 and WebSocket, both ends."""
