"""Live figures of chapter 5: `token_price`, and films in `draft_films`; `planner` is a page of its own, for training and serving."""
