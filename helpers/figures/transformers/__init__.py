"""Live figures of chapter 3: `decoder_sizes`, and the film of `remat_film`."""
