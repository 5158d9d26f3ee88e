"""`interpose image`: images of the built-in runtime."""
