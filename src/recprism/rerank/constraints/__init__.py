"""Constraints on lists: bans, pins, shares of categories, a floor for the tail."""
