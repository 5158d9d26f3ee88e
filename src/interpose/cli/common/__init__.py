"""What several commands share: options, output, admin sockets, the life of a daemon."""
