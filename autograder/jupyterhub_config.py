"""A JupyterHub on one machine whose users have accounts there: `jupyterhub -f autograder/jupyterhub_config.py`, as root.

COURSE_TEACHERS  accounts, with spaces between, whose servers have the Formgrader; all others are students'
COURSE_EXCHANGE  the folder for handing out and in (default /srv/nbgrader/exchange); students' settings are put beside it
Tests: tests/autograder/test_hub.py.
"""

import os
import re
import shutil
import sys
from pathlib import Path

c = get_config()  # noqa: F821  (traitlets defines it)

here = Path(__file__).resolve().parent
exchange = Path(os.environ.get("COURSE_EXCHANGE") or "/srv/nbgrader/exchange")
students = exchange.with_name("students")
teachers = set(os.environ.get("COURSE_TEACHERS", "").split())

if not teachers:
    sys.exit("Say who teaches, by the names of their accounts: COURSE_TEACHERS='ada bob'.")
if here.parent.stat().st_mode & 0o077:
    sys.exit(f"Everybody on this machine may look into {here.parent}, with its answers and grades: chmod go-rwx it.")
exchange.mkdir(parents=True, exist_ok=True)
exchange.chmod(0o1777)  # nbgrader wants all to write there; nobody moves what is another's
course = exchange / re.search(r'course_id = "(.*)"', (here / "students/nbgrader_config.py").read_text())[1]
course.mkdir(exist_ok=True)  # before anybody else can
if course.lstat().st_uid not in (0, here.stat().st_uid):
    sys.exit(f"{course} is not of whoever teaches: its owner could hand out and collect, so remove it.")
shutil.chown(course, here.stat().st_uid)
shutil.copytree(here / "students", students, dirs_exist_ok=True)

c.Authenticator.allow_all = True  # who has an account here is in the class
c.Authenticator.admin_users = teachers
c.Spawner.default_url = "/lab"


def configured(spawner) -> None:
    """What a server is for depends on whose it is."""
    folder = here if spawner.user.name in teachers else students
    spawner.environment |= {"JUPYTER_CONFIG_PATH": str(folder), "COURSE_EXCHANGE": str(exchange)}


c.Spawner.pre_spawn_hook = configured
