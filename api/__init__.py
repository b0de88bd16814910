"""The HTTP face of the service, and the composition root that alone knows clock, disk and network."""
