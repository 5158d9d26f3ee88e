"""What the process says about itself: log lines and metrics. Knows nothing of relays, hooks or policies."""
