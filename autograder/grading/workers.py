"""Where submissions are graded: in processes of this machine, or on Dask's workers; the rest of the course sees no difference.

with pool(assignment, "2") as workers:
    for graded in workers.run(jobs):
        ...
"""

import os

from autograder.places import SourceError

from . import one_submission
from .jobs import Grade, Local
from .one_submission import Assignment


def pool(assignment: Assignment, where: str = "", grade: Grade = one_submission.graded):
    """Workers: so many processes here, Dask's on this machine ("dask"), or those of a running scheduler (its address)."""
    if where == "dask" or where.startswith(("tcp://", "tls://")):
        try:
            from .dask_jobs import Dask
        except ImportError:
            raise SourceError("Dask is not installed: run `make env EXTRA=dask` first.") from None
        return Dask(assignment, where, grade)
    if where and not (where.isdecimal() and int(where)):
        raise SourceError(
            f'COURSE_WORKERS is "{where}": give a number of processes, dask, or a Dask scheduler as tcp://host:port.'
        )
    return Local(assignment, int(where or min(4, os.cpu_count() or 1)), grade)
