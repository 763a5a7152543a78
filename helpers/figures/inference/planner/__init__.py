"""The planner, a page of its own: layouts for training and for serving, ranked."""
