"""The kit: fakes, builders of situations, strategies and virtual time.

Rule of this package: nothing in production imports it, but for the demo and the fakes.
"""
