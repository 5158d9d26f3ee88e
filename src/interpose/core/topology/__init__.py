"""The machine as a value: packages, dies, NUMA nodes, caches, cores, CPUs."""
