"""Reasons of the rule for one user's list: why, why not, and what if."""
