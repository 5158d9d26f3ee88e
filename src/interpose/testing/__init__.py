"""What tests and the demo stand on: a stateful fake runtime, request builders, failpoints.

Public like the command line: plugin and policy authors may build on it. Production code never imports it.
"""
