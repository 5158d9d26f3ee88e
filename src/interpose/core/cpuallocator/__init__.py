"""Which CPUs to take when so many are wanted: pure functions over a topology."""
