"""The commands of the three runs that the demo submits: they know Jackline by its command line alone."""
