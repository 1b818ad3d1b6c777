"""The paper's commands: they search in a run, erase factors of its vectors, and explain them."""
