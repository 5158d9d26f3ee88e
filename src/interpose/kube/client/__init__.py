"""The API server of a cluster: who we are there, requests, and objects that are followed."""
