"""The lab: real programs (containerd, HAProxy, nginx, dockerd, our own relay) started for a test or a benchmark.

Everything lives in a scratch folder given by the caller and ends with the context manager that started it. Nothing here
is a fake: see `interpose.testing` for those. Only programs that the lab itself started are ever signalled.
"""
