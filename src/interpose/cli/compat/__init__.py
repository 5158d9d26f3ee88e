"""Command lines of others that ours stand in for: cri-resmgr and koord-runtime-proxy."""
