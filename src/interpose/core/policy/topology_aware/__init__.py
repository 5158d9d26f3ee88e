"""The policy topology-aware: containers get CPUs and memory of one part of the machine, as narrow as it can be."""
