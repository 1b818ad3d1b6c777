"""Monitoring of a log of served requests, with intervals that may be read at any time."""
