"""The hook contract, shared by the dispatcher and by everything that serves hooks.

Hook points and their CRI methods, registration files, and the messages of the hook protocol.
"""
