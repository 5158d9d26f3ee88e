"""Bodies of Docker's API as messages of CRI, and back."""
