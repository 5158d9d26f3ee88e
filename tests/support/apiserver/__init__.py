"""An API server for tests: it behaves like the real one for what this project uses, and breaks on demand.

`server.ApiServer` is the way in; `python -m tests.support.apiserver` runs one in a process of its own.
"""
