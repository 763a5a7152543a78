"""On a JupyterHub, the folder for students hides the Formgrader from whoever has it, and from nobody else."""

import pytest
from jupyter_core.paths import jupyter_config_path
from jupyter_server.extension.config import ExtensionConfigManager
from jupyterlab_server.config import get_static_page_config

from autograder.places import COURSE


@pytest.mark.parametrize(("folder", "grades"), [("", True), ("students", False)])
def test_who_has_the_formgrader(folder, grades, monkeypatch):
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", str(COURSE / folder))
    on_server = ExtensionConfigManager(read_config_path=jupyter_config_path()).get_jpserver_extensions()
    in_lab = get_static_page_config(level="all").get("disabledExtensions", {})
    assert on_server["nbgrader.server_extensions.formgrader"] == grades
    assert in_lab.get("@jupyter/nbgrader:formgrader", False) != grades
    assert on_server["nbgrader.server_extensions.assignment_list"] and "@jupyter/nbgrader:assignment-list" not in in_lab
