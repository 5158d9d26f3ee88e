"""Hook servers: the contract, the caller, and the server with its plugins."""
