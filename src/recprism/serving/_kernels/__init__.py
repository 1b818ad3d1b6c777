"""Compiled loops of the serving library."""
