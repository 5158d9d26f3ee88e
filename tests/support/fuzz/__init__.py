"""Loops and promises of the fuzzers."""
