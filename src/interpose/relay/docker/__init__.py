"""The same relay in front of dockerd: HTTP/1.1 instead of gRPC, Docker's API instead of CRI.

`client`, `passing`, `tunnel` and `listener` move bytes between clients and dockerd, `upstream` finds dockerd and knows
whether it is there, `routes` tells which call is which, `collector` takes the calls about containers of Kubernetes
through the chain of interceptors as if they were CRI calls. What nobody asked for passes as the bytes that came.
"""
