"""From sentences to named features: parts of speech, aspects, and the sentiment of each mention.

Needs textblob and vaderSentiment (``pip install 'recprism[text]'``); both are imported on first use.
"""
