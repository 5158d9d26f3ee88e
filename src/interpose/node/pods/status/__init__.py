"""The status of pods: as the runtime has it, as it is stored, and as it is shown."""
