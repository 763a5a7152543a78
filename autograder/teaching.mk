# What a teacher types; the students' folder of an edition does not have this file.
.PHONY: formgrader release collect grade alike

# JupyterLab with the Formgrader and all else of nbgrader's that learners do not see.
formgrader: $(READY) $(ADDED)
	python -m jupyterlab $(ROOT_USER) $(if $(PORT),--port=$(PORT) --ServerApp.port_retries=0)

release: $(READY)
	python -m autograder.release

# make collect FROM=submissions.zip ASSIGNMENT=ch01_rooflines, and CLASS=class.csv where there is a class list.
collect: $(READY) $(ADDED)
	python -m autograder.collect $(ASSIGNMENT) $(if $(FROM),--from "$$FROM") $(if $(CLASS),--class "$$CLASS")

# DRY=1 only says what would change; AGAIN=4.30 judges this exercise anew for everybody who misses points in it.
grade: $(READY) $(ADDED)
	python -m autograder.grade $(ASSIGNMENT)$(if $(filter-out 0,$(DRY)), --dry)$(if $(AGAIN), --again $(AGAIN))

# Submissions that are more alike than usual, after make grade.
alike: $(READY)
	@python -m autograder.likeness $(ASSIGNMENT)
