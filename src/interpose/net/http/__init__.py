"""An HTTP/1.1 client over TCP, TLS and unix sockets."""
