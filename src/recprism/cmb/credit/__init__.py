"""Credit: what each player gets of what the lists earned.

``shared`` pays everybody the same (the paper); ``marginal`` pays a player what its own factor of its own item or user
did at the edge of the lists. A credit is one file and one line in ``CREDITS``.
"""

CREDITS = ("shared", "marginal")
