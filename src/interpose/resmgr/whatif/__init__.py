"""What a policy would have done, or would do."""
