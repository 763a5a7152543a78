"""Run: training on many chips (chapter 4).

    mlp_training_step          the two-matmul layer, forward and backward by hand, and the step that any strategy makes of it
    data_parallel_and_fsdp     data parallelism, ZeRO-1, ZeRO-2, FSDP (ZeRO-3)
    tensor_parallel            tensor parallelism; fsdp_and_tensor_parallel: both together
    transformer_over_mesh      the small Transformer under any of these, and under context and expert parallelism
    context_parallel           ring attention;  expert_parallel: two AllToAlls
    pipeline_parallel          microbatches through stages, by any order of forward, backward and weight-gradient passes
    transformer_in_stages      a chain of devices without microbatches; the small Transformer as a pipeline

Mesh axes have the chapter's names: X cuts the batch, Y the model's width, Z its layers.
May import: rooflines, sharding, transformers and attention of this floor, kernels.mesh; helpers.costs.
Tests: tests/helpers/kernels/training.
"""
