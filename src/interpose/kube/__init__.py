"""The cluster: API client, node agent, admission webhook.

Small on purpose: objects are plain JSON, and only what our programs use is here.
"""
