"""The contest behind docs/frontier.md; ``python benchmarks/compare.py`` runs it."""
