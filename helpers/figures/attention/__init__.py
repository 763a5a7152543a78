"""Live figures of chapter 6: `attention_variants`, and films of Flash and of a ring."""
