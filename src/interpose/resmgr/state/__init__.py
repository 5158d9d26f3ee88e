"""What a policy remembers over restarts."""
