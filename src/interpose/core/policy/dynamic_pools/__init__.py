"""The policy dynamic-pools: pools of CPUs that grow and shrink with requests and load."""
