"""All that the course takes from JAX beyond its public interface: what breaks here when JAX moves is broken nowhere else."""

import functools
from collections.abc import Callable


def backend_has_started() -> bool:
    """Whether this process has devices, so that it must not be forked."""
    from jax._src import xla_bridge

    return xla_bridge.backends_are_initialized()


def share_context() -> Callable:
    """Have one context for all programs, where JAX makes two for each; it grows, so it is for one submission.

    What is given back makes the next one; a process that is forked has that of its parent.
    """
    from jax._src.interpreters import mlir

    mlir.make_ir_context = functools.cache(mlir.make_ir_context)
    mlir.make_ir_context()
    return mlir.make_ir_context.cache_clear


def module_bytes(module) -> bytes:
    """A module as `jax.export` writes it."""
    from jax._src.export._export import _module_to_bytecode

    return _module_to_bytecode(module)


def keep_programs_of_one_device() -> None:
    """Programs of several devices are not kept on a disk; JAX has no setting for it."""
    from jax._src import compilation_cache

    put = compilation_cache.put_executable_and_time

    def put_if_alone(key, name, executable, *rest):
        here = getattr(executable, "local_devices", list)()  # none: compiled for a machine that is not here
        if len(here) == 1:
            put(key, name, executable, *rest)

    compilation_cache.put_executable_and_time = put_if_alone
