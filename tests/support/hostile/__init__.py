"""Clients and backends that wear a proxy out, and the neighbour who has to live beside them.

Each is a process of its own and shares no code with the engine: frames come from `h2peer`, header blocks from
`h2hpack`. The same attacks serve the benchmark against other proxies and the tests of our relay.
"""
