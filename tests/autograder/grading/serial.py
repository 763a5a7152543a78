"""A pool of this process alone, which remembers what it was asked."""

from autograder.grading import one_submission


class Serial:
    jobs: list[one_submission.Job] = []

    def __init__(self, assignment, where):
        self.assignment = assignment

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def run(self, jobs):
        for job in jobs:
            Serial.jobs.append(job)
            yield one_submission.graded(self.assignment, job)
