"""Pods and containers on one machine without Kubernetes: a pod manager and a container runtime."""
