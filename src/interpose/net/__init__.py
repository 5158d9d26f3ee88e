"""Bytes: HTTP/1.1, HTTP/2, SPDY and WebSocket without IO, and their asyncio shells."""
