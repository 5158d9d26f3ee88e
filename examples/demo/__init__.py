"""The demo: pods from manifests on a node with relay, policy, hook server and agent."""
