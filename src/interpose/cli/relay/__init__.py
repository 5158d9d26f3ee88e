"""`interpose relay`: the command and how the daemon is put together."""
