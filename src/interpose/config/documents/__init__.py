"""Documents that people write: policies, machines, manifests, YAML itself."""
