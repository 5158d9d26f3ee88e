"""The hook server: plugins that decide values of pods and containers, and the two modes that apply them."""
