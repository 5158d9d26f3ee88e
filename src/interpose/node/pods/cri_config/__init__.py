"""A manifest as the messages of CRI."""
