"""Readers of file formats and of published data sets."""
