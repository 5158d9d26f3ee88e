"""The policy static-pools: pools of CPUs set up by hand, compatible with CPU Manager for Kubernetes (CMK)."""
