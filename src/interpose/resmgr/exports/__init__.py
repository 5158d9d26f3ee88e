"""What containers were given, as files that they can read: `resources.sh` in a directory of each."""
