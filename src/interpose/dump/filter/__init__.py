"""Which calls are wanted, and in which order."""
