"""How a relay ends, is replaced, and leaves starts of containers running."""
