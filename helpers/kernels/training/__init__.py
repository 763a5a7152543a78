"""Run: training on many chips (chapter 4).

    layer      the two-matmul layer, forward and backward by hand, and the step that any strategy makes of it
    data       data parallelism, ZeRO-1, ZeRO-2, FSDP (ZeRO-3)
    tensor     tensor parallelism; mixed: FSDP and tensor parallelism together
    adam       the optimizer, whose state is cut as its weights are
    model      the small Transformer under any of these, and under context and expert parallelism
    context    ring attention;  experts: two AllToAlls
    pipeline   microbatches through stages, by any order of forward, backward and weight-gradient passes
    stages     a chain of devices without microbatches; the small Transformer as a pipeline

Mesh axes have the chapter's names: X cuts the batch, Y the model's width, Z its layers.
"""
