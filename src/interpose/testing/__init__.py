"""Fakes for tests of hook plugins and runtimes: a stateful CRI runtime, a node with cgroups, a hook server, requests.

Public like the command line: plugin and policy authors may build on it. Production code never imports it.
"""

import os

# grpcio runs handlers in every process that is forked beside it, and uvloop forks what it starts, with threads of
# grpcio at work: the child crashes before it can become the program (its stack is that of create_subprocess_exec), or
# closes connections that are its parent's. Our children never use the grpcio they inherit. Read when grpc is imported.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
