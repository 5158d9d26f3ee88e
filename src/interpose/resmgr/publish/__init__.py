"""Labels, taints and capacity that a policy publishes on its Node."""
