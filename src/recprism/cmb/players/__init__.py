"""The players of a search: their arms, their memory, and the policies that choose."""
