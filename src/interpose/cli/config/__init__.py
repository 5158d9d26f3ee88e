"""`interpose config`: checking, showing and comparing settings and documents."""
