"""HTTP/2 as gRPC uses it: bytes in, events and bytes out.

Pure: no sockets, no clock, no logging, no asyncio. `rpc` is the shell that feeds it and writes what it says.
"""
