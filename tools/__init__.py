"""Programs for whoever works on the course: exercises, benches, sweeps, faults, pictures. No tests, and nothing that the course imports.

`bench_*` measure, and store in `book/results`: `accelerator` says on what, `hardware_cases` has `bench_hardware`'s operations;
`sweep` asks the planner everything; `planted_faults` has the tests find faults; `term` takes the pictures of the instructor's
guide; `demo` grades a class of sample answers; `new_exercise` begins an exercise, and `try_exercise` judges one alone, which
`one_exercise` makes; `hunt` looks for wrong answers that win, which `mutation` makes; `weight`, `lighthouse`, `text_measures` and
`figure_timings` look at the site.
"""
