"""Questions with ready answers: folds of the journal with a position. A projection never decides."""
