"""Run: training on many chips (chapter 4).

    mlp_training_step          the two-matmul layer, forward and backward by hand, and the step that any strategy makes of it
    data_parallel_and_fsdp     data parallelism, ZeRO-1, ZeRO-2, FSDP (ZeRO-3), HSDP over hosts (chapter 7); tensor parallelism, and
                               FSDP and tensor parallelism together
    transformer_over_mesh      the small Transformer under any of these, and under context parallelism (a ring of attention) and
                               expert parallelism (two AllToAlls)
    pipeline_parallel          microbatches through stages, by any order of forward, backward and weight-gradient passes; a chain of
                               devices without microbatches

Mesh axes have the chapter's names: X cuts the batch, Y the model's width, Z its layers.
May import: rooflines, sharding, transformers and attention of this floor, kernels.mesh; helpers.costs.
Tests: tests/helpers/kernels/training.
"""
