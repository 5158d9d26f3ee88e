"""The policy balloons: groups of CPUs of configured types that grow and shrink with the containers in them."""
