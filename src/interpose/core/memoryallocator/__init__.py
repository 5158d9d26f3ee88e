"""Selection of memory nodes for containers: pure functions and one object over a topology."""
