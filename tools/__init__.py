"""Programs for whoever works on the course: benches, sweeps, planted faults, pictures. No tests, and nothing that the course imports.

`bench_*` measure, and store in `book/results`: `accelerator` says on what, `hardware_cases` has `bench_hardware`'s operations;
`sweep` asks the planner everything; `planted_faults` has the tests find faults; `term` takes the pictures of the instructor's
guide; `weight`, `lighthouse`, `text_measures` and `figure_timings` look at the site.
"""
