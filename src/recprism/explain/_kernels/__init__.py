"""Compiled loops of explanations."""
