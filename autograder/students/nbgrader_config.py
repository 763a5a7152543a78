"""nbgrader's settings for students of a JupyterHub: their servers have JUPYTER_CONFIG_PATH set to a copy of this folder.

Beside it: what hides the Formgrader, for whoever has this folder and for nobody else.
"""

c = get_config()  # noqa: F821  (traitlets defines it)

c.CourseDirectory.course_id = "rooflines"  # as the instructor's configuration has it, and so the folder of the exchange
c.Exchange.root = "/srv/nbgrader/exchange"
