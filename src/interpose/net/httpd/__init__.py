"""The admin socket: one small HTTP/1.1 server with health, metrics and JSON views.

What lives here: the server, routing, health checks. What does not: the views themselves; the composer of a daemon
hands over a route table.
"""
