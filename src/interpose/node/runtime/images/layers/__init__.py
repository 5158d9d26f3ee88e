"""Layers of images: unpacked, flattened and mounted."""
