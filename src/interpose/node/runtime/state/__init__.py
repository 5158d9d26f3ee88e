"""What the runtime remembers over restarts."""
