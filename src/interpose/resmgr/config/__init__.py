"""Sources of the configuration of a policy, and its changes at run time."""
