"""Live figures of chapter 7: `collective_times`, and the film of `hierarchical_film`."""
