"""Between the kubelet and the runtime: which call goes where, and who may look at it or change it.

`proxy` takes new calls, `passthrough` moves those without a subscriber, `intercepted` runs the others through `chain`,
`stream_editor` and `taps` edit and copy messages; `api` has the interfaces. The relay does not know its subscribers.
"""
