"""What became of pods, and how that is told."""
