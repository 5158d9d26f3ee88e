"""What the hook server knows of pods: from the kubelet and from their annotations."""
