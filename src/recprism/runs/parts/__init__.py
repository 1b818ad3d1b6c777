"""The parts of :class:`recprism.runs.Run`, each with its own kind of files."""
