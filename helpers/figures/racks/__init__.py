"""Live figures of chapter 7: the film of `hierarchical_film`."""
