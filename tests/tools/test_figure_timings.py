"""How soon a live figure answers: the program finds its marks, and says how it is called."""

from tools import figure_timings


def test_a_figure_is_timed(browser, tmp_path, monkeypatch):
    monkeypatch.setattr(figure_timings, "names", lambda: ["matmul-roofline"])
    [(name, (weight, address))] = figure_timings.pages(tmp_path).items()
    assert name == "matmul-roofline" and 1_000 < weight <= figure_timings.limit(name)
    assert figure_timings.ready(browser, address) > 0 and figure_timings.linked(browser, address) > 0
    assert figure_timings.slowest(browser, address, runs=1) > 0


def test_it_says_how_it_is_called(capsys):
    assert figure_timings.main(["many"]) == 2 and figure_timings.main(["1", "2"]) == 2
    assert "usage" in capsys.readouterr().out
