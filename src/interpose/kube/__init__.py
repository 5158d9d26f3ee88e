"""The only door to the API server of a cluster: who we are there, requests, and objects that are followed.

Small on purpose: objects are plain JSON, and only what our programs use is here.
"""
