"""Live figures of chapter 2: `collective_films`; `explorer` is a page of its own."""
