"""What executes a submission when a class is graded: answers in one sandbox, checks in another, plain values between.

    zygote               a warm interpreter in a sandbox, which forks a child for each submission
    answer_process       the child: runs the learner's cells, and answers calls to what they define
    checker              runs the released checks with stand-ins for the learner's functions; trusted, long-lived, sandboxed too
    run_submission       hands the cells of one submission to the two, in order, and collects the outputs

    peers                           the zygote and the checker as the engine has them
    sandbox, linux_isolation            how a process is locked in;  importable_helpers, standin_*: what it sees of `helpers`
    time_limits                     seconds of a processor that each may use, and the wider clock
    wire, wire_types                messages between processes that do not trust each other
    answer_proxy, exported_program  a learner's function in the checker, and the program that it exports
    program_reader, plain_program   reads that program in a process of its own, and hands it on as plain data
    jax_internals                   what is taken from JAX beyond its public interface
    program_data                    what that is;  numpy_devices runs it, traceable_program traces it

Modules of this package import each other relatively and the rest of `autograder` never: sandboxes see no more of the
course. Tests: tests/autograder/engine.
"""
