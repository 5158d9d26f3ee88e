"""CRI as calls: what a client of a runtime and a runtime itself share. Messages in, messages out."""
