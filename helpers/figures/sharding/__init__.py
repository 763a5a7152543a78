"""Live figures of chapter 2: `collective_films`, `matmul_plans`; `plan_explorer` is a page of its own."""
