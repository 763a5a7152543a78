"""A model on chips, from a shell: `python -m helpers.plan train …` and `python -m helpers.plan serve …`.

`ask` reads which model and which chips, `train` ranks layouts of a training step and says what it sends over which links, `serve`
finds a deployment for a target.
Needs NumPy, for training, and nothing else.
May import: helpers.costs, helpers.show.
Tests: tests/helpers/plan.
"""
