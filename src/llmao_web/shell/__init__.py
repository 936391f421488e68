"""The hands: everything that waits, dials, reads files or asks what time it is.

Rule of this package: it does not know that it is on the web.
"""
