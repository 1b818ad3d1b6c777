"""The studio: a page and a JSON interface to runs, for one person on one machine (extra ``serve``)."""

from recprism.studio.app import create_app

__all__ = ["create_app"]
