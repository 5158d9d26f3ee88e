"""The runtime's end of the connection to a shim."""
