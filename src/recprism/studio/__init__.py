"""The studio: a page and a JSON interface to runs, for one person on one machine."""
