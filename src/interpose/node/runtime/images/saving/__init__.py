"""Images out of the store again: as archives that docker, containerd and we ourselves can read."""
