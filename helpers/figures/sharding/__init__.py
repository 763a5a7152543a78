"""Live figures of chapter 2: `collective_films`, `matmul_plans`; `sharded_matmul_frames` is a page of its own."""
