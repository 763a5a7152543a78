"""Live figures of chapter 6: `attention_variants`, and the films of `block_films`."""
