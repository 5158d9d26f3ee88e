"""The policy podpools: a pod as a whole runs in an instance of the pool that it names."""
