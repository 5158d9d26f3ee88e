"""The same relay in front of dockerd: HTTP/1.1 instead of gRPC, Docker's API instead of CRI.

`client`, `passthrough`, `tunnel` and `listener` move bytes between clients and dockerd, `upstream` dials dockerd and
knows whether it is up, `routes` tells which call is which, `intercepted` takes the calls about containers of Kubernetes
through the chain of interceptors as if they were CRI calls. Other calls pass as the bytes that came.
"""
