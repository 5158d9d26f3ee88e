"""Load tools and the proxies they are pointed at."""
