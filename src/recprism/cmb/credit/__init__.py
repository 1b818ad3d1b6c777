"""Credit: how the reward of the lists is divided among players.

``shared`` pays all players the same (the paper). ``marginal`` pays a player for the effect of its own factor of its own
item or user at the edge of the lists. A credit is one file and one line in ``CREDITS``.
"""

CREDITS = ("shared", "marginal")
