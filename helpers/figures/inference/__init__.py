"""Films of chapter 5, `draft_films`; `planner` is a page of its own, for training and serving."""
