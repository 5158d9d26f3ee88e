"""Messages of the wire protocols, generated from proto/ by tools/gen_proto.py and never edited by hand.

`cri_pb2` serves runtime.v1 and runtime.v1alpha2 alike: their messages are the same bytes, only the paths of the calls
differ. Nothing is imported here on purpose: the classes and protobuf itself cost several megabytes, and a relay that
passes everything through never needs them. Whoever parses a message imports the module at that moment.
"""
