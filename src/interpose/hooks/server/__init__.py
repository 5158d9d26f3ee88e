"""The hook server: plugins that say what pods and containers shall get, and the two ways in which they get it."""
