"""Commands about policies and machines: explain, policies, simulate, topology."""
