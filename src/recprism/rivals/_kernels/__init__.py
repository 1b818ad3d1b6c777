"""Compiled loops of the rivals, on numpy arrays."""
