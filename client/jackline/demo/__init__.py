"""`jackline demo`: what Jackline is for, shown on real work.

scripts/     the three runs' commands: they know Jackline by its command line and their environment alone
story        starts a service and workers, kills one, brings it back, and lets the runs end
narrator     turns facts of the journal into lines; nothing else is printed
checks       whether what was told is true
"""
