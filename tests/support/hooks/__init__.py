"""Hook servers without sockets."""
