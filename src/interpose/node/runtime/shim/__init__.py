"""The shim of a sandbox: it keeps namespaces and stdio, reaps processes, and records exits of containers.

It outlives the runtime. To stay small it uses the standard library alone, and of that only what costs little.
"""
