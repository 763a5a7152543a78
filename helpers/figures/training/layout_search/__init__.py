"""What the pages that rank layouts of a training step share: the cluster of the day and the planner."""
