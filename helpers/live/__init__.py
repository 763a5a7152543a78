"""A cost function, traced by JAX and written out as JavaScript; the controls around it on a page.

`jaxpr_to_javascript` writes each primitive as a line, with few names, and `stages` shares text among functions that are alike.
`figure` is a figure as data, with `controls`, `tables`, `drawings` and `words`; `film` is a film. `settings.js` reads a
page's controls, `grids.js` their sliders, `figure_controls.js` shows what they ask for. Nothing here knows a figure.
May import: helpers.show.
Tests: tests/helpers/live.
"""
