"""The `jackline` command line.

One console script. Verbs that talk to the service are here; verbs that *are* the service (`serve`, `config`,
`projections`, `journal`) join by the entry-point group `jackline.commands` when the server distribution is installed.
"""
