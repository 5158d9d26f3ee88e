"""The policy in the way of calls: decide and book, carry out, commit or undo, remember."""
