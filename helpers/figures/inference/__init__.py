"""Live figures of chapter 5: `token_price`, and `draft_films`; `planner` is a page of its own, for training and serving."""
