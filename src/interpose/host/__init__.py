"""The only access to the operating system: sockets, systemd, users, /proc.

Nothing here knows HTTP/2, gRPC or CRI; a module of another package that needs the OS asks for it here.
"""
