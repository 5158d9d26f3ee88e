"""Part of `node.runtime`: network."""
