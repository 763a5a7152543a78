"""What executes a submission when a class is graded: answers in one sandbox, checks in another, plain values between.

    zygote    a warm interpreter in a sandbox, which forks a child for each submission
    child     runs the learner's cells, and answers calls to what they define
    checker   runs the released checks with stand-ins for the learner's functions; trusted, long-lived, sandboxed too
    engine    hands the cells of one submission to the two, in order, and collects the outputs

Modules of this package import each other relatively and the rest of `autograder` never: sandboxes see no more of the course.
"""
