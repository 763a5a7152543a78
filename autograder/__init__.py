"""From the exercises' source to graded classes: release, grading, and the checks on both.

nbgrader's course root is this folder.
"""

import sys

# jsonschema would import it to check IRIs, which no notebook has: 1.7 s of each process that reads a notebook.
sys.modules.setdefault("rfc3987_syntax", None)
