"""Live figures of chapter 5: `planner` is a page of its own, for training and serving."""
