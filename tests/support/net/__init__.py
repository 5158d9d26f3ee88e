"""Peers, sockets and certificates for tests of protocols."""
