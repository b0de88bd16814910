"""What a run stands on: the contract of providers and observers, and those that need nothing but this machine.

`contract` says what every kind of workspace must be able to do; `directory` and `process` do it for a directory and
for a process; `watching` notices that either has ended. They are part of the client because the client is what is
installed where runs are executed.
"""
