"""The film of chapter 4: one training step of two layers on four devices, under DP, ZeRO-1, ZeRO-2 and FSDP."""

from .step_films import StepFilm, film

FIGURE = StepFilm(
    name="training-step",
    title="One training step on four devices. W: weights, dW: gradients, A: Adam's state. A frame's thick edges show what it changes.",
    films={"FSDP": film("FSDP"), "ZeRO-2": film("ZeRO-2"), "ZeRO-1": film("ZeRO-1"), "Data parallelism": film("DP")},
    menu="Strategy",
)
