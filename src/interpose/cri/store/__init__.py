"""Pods and containers the runtime has, in memory: written by who sees the calls, read by hooks and policies."""
