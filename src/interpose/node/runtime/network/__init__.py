"""Networks of pods: CNI configurations, plugins and their results."""
