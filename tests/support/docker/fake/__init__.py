"""A Docker API in this process, on a unix socket, with containers that exist as state only.

`server.FakeDocker` is what tests use; its answers have the shape of dockerd 20.10's, byte for byte where a proxy could
tell the difference: order of headers, lengths or chunks, error documents, upgraded streams.
"""
