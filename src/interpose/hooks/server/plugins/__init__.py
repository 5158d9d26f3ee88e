"""The plugins. Each is pure and knows none of the others."""
