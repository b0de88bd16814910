"""The process manager: facts and due instants in, commands out. One promise per file, named as the promise."""
