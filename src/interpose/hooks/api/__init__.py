"""The hook contract, shared by the host (`dispatcher`) and by whoever serves hooks.

Hook points and their CRI methods, registration files, and the door to the messages of the hook protocol.
"""
