"""A configuration for students of a JupyterHub, no package: their servers have JUPYTER_CONFIG_PATH set to a copy of this folder.

It names the course and the exchange, and hides the Formgrader from whoever has it, and Validate: each check says itself what it found.
Tests: tests/autograder/test_hub.py.
"""
