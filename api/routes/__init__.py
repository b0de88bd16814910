"""The routes, one file per subject; each function says what it takes and what it answers, and does next to nothing."""
