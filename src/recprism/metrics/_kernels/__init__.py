"""Compiled metric kernels. They need numpy and numba only."""
