"""A renderer for Helm charts: the part of Go templates and of Helm's functions that our chart uses.

There is no helm where the tests run. What is not understood is an error with file and line, never passed over, so a
chart that renders here uses nothing that was not looked at. Where Helm is known to surprise, this is stricter.
"""
