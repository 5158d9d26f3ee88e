"""Updates of running containers: sent, pending, compared with cgroups, and the fields that the policy manages."""
