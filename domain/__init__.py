"""What is true and what may happen next: pure decisions over facts, with no input, output, clock or minted id."""
