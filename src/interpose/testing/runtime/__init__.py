"""The parts of `interpose.testing.fakeruntime`."""
