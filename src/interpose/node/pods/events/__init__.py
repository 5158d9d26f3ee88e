"""Part of `node.pods`: events."""
