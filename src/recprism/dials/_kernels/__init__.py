"""Compiled solvers for user and item vectors. They need numpy and numba only."""
