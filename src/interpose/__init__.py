"""interpose stands between the kubelet and the container runtime of a Kubernetes node."""

__version__ = "0.1.0"
