"""Root file systems, mounts and files below them."""
