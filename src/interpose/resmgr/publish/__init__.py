"""What a policy tells the cluster about its node."""
