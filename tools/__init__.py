"""Small programs for those who work on Jackline; nothing here is installed with it."""
