"""What is checked, by area."""
