"""A pool of this process alone, which remembers what it was asked."""

from autograder import work


class Serial:
    jobs: list[work.Job] = []

    def __init__(self, assignment, where):
        self.assignment = assignment

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def run(self, jobs):
        for job in jobs:
            Serial.jobs.append(job)
            yield work.graded(self.assignment, job)
