"""The append-only record of everything that happened, and the only room that knows how it is stored."""
