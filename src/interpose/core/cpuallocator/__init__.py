"""Selection of CPUs on a machine: pure functions over a topology."""
