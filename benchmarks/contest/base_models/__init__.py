"""The base models of the contest, with their tuned settings."""
