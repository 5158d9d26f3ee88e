"""A container runtime of our own: images, sandboxes and containers behind CRI, one shim process per sandbox."""
