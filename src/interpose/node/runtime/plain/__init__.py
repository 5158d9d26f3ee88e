"""An executor without a container runtime: a program with runc's verbs that starts plain processes of the host.

Standard library only. It applies what it can of a bundle and says what it does not isolate.
"""
