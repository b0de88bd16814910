"""What the outside may ask: load the streams, let the domain decide, commit once."""
