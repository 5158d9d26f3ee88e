"""The process that stands by a sandbox: it holds namespaces and stdio, reaps, and writes down how containers ended.

It outlives the runtime. To stay small it uses the standard library alone, and of that only what costs little.
"""
