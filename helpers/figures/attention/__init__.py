"""Live figure of chapter 6, `forms_side_by_side`, and films of Flash and of a ring."""
