"""Compiled solvers for user vectors and named weights. They need numpy and numba only."""
