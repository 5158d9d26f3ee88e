"""The services of CRI: sandboxes, containers, images, streams."""
