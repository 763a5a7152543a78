"""Live figures of chapter 7: `collective_times`, and `hierarchical_film`."""
