"""Values and decisions about CPUs and memory: no IO, no clock, no protobuf."""
