"""The node agent: configuration of the cluster in, results and published state of the node out."""
