"""Live figures of chapter 4: `step_films`; `cluster_of_the_day` is a page of its own, and `layout_search` what it and the planner share."""
