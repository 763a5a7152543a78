"""Live figures of chapter 3: `decoder_sizes`, and `remat_film`."""
