"""Compiled loops over players. They need numpy and numba only."""
