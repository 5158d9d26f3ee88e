"""The node agent: configuration of the cluster in, results and wishes of the node out."""
