"""Metrics of pods and containers under cAdvisor's names: what ListMetricDescriptors and ListPodSandboxMetrics serve."""
