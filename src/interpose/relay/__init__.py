"""Between the kubelet and the runtime: which call goes where, and who may look at it or change it.

`methods` is the table of CRI methods, `passthrough` moves the calls nobody asked for, `interceptor` and `taps` are the
two seams for those somebody did, `process` is the life of the daemon. The relay does not know who intercepts.
"""
