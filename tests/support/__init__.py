"""What tests stand on, and nothing that is installed with interpose."""
