"""What nobody may see in a dump."""
