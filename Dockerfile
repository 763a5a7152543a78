# The course in a container, with walls for grading: compose.yaml has the options that the walls need.
FROM python:3.12-slim-bookworm

COPY autograder/container/install-system-packages.sh /tmp/
RUN /tmp/install-system-packages.sh grading && rm -rf /var/lib/apt/lists/*

# An ordinary user grades: root can be limited by a cgroup only, which a container may not make.
RUN useradd --create-home --uid 1000 grader && mkdir /course && chown grader /course
USER grader
WORKDIR /course
# An environment with this name beside those of the machine, when its clone is mounted here.
ENV PYTHON=python3.12
COPY --chown=grader . .
RUN make env

EXPOSE 8888
ENV PATH=/course/.venv-python3.12/bin:$PATH JUPYTER_CONFIG_PATH=/course/autograder TF_CPP_MIN_LOG_LEVEL=2
CMD ["sh", "-c", "python -m autograder.own_work copies; exec jupyter lab --ip=0.0.0.0 --no-browser"]
