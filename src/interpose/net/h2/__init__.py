"""HTTP/2 as gRPC uses it: bytes in, events and bytes out.

Pure: no sockets, no clock, no logging, no asyncio. `net.grpc` is the shell that feeds it and writes its output.
"""
