"""A deterministic world around Jackline: seeded workers, leaders and faults on a virtual clock, and the laws."""
