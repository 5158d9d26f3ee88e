"""Events of pods: recorded, kept in a file, shown."""
