"""The OCI specification of a container, and the programs that carry it out."""
