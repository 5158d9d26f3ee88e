"""The asyncio shell around h2: connections on unix sockets, gRPC calls in both roles.

What lives here: transports, listeners, dialling, our own client calls, local handlers, status codes.
What does not: which calls are intercepted and why (relay), and any knowledge of CRI messages.
"""
