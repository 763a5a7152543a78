# What needs tools/ or tests/, or makes an edition; no edition has this file.
.PHONY: test test-all faults pictures exercise demo bench bench-grading bench-estimate bench-serving bench-collectives bench-layouts bench-attention bench-hardware sweep edition

# TESTS="helpers tests/helpers" runs these only.
test: $(READY) $(ADDED)
	python -m pytest -n 2 --dist loadgroup $(TESTS)

# AREAS="grading site" runs the long tests of these only, FULL=1 every case; BASE=main~3 says what the change is.
test-all: $(READY) $(ADDED)
	python -m tools.run_all_tests

# FAULTS="contrast kill" plants those whose names have one of the words.
faults: $(READY) $(ADDED)
	python -m tools.planted_faults $(FAULTS)

# Each drawing as a file for slides, in _build/pictures; CHAPTER=ch04 for one chapter's.
pictures: $(READY)
	python -m tools.pictures

# NEW=4.27 writes a skeleton behind the last exercise of chapter 4; TRY=4.27 judges that exercise alone and shows it.
exercise: $(READY) $(ADDED)
	@$(if $(NEW)$(TRY),true,echo "Name one: make exercise NEW=4.27 begins it, make exercise TRY=4.27 judges it." >&2; exit 1)
	$(if $(NEW),@python -m tools.new_exercise "$$NEW")
	$(if $(TRY),@python -m tools.try_exercise "$$TRY")

demo: $(READY)
	python -m tools.demo

bench: $(READY)
	python -m tools.bench_startup

bench-grading: $(READY) $(ADDED)
	python -m tools.bench_grading

bench-estimate: $(READY)
	python -m tools.bench_estimate

bench-serving: $(READY)
	python -m tools.bench_serving

bench-collectives: $(READY)
	python -m tools.bench_collectives

bench-layouts: $(READY)
	python -m tools.bench_layouts

bench-hardware: $(READY)
	python -m tools.bench_hardware

sweep: $(READY)
	python -m tools.sweep --every 12

bench-attention: $(READY)
	python -m tools.bench_attention

# make edition INTO=../ours EDITION=edition.yml
EDITION ?= edition.yml
edition: $(READY)
	python -m autograder.edition "$$EDITION" --into "$$INTO"
