"""Read models in memory, folded in the commit path: the ready queue, limits, deadlines and owners."""
