"""What the hook server knows of its node: the node document and its rules."""
