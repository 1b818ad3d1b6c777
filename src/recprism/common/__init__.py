"""What many rooms use: ids, files, checks, shares, threads, executors, log, progress, and how names load."""
