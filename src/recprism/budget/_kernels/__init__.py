"""Compiled loops of the tests of a loss."""
