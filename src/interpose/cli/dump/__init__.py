"""`interpose dump`: recording, showing and replaying what passes a relay."""
