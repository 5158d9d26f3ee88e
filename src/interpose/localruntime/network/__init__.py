"""Networks of pods: CNI plugins where a configuration exists, the host's network otherwise."""
