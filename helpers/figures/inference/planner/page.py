"""The planner's page: controls, the ranking, bars and tables, drawn by Python for the first setting."""

import math
from html import escape

from helpers.costs.transformers.public_models import model
from helpers.figures.transformers.decoder_sizes.decoder import SIZES, sizes, unused
from helpers.live.controls import head_html
from helpers.live.words import reading
from helpers.plan.train import SENT

from . import tiers, words as say

WIDE, HIGH = 360, 34  # of a drawing, and of one bar in it
TALL = 250  # of the frontier


def html(figure) -> str:
    """All of it; what only the script can drive stays hidden until it has started."""
    key, at, plan = f"live-{figure.name}", figure.chosen(), figure.plan()
    return (
        head_html(
            key, figure.title, say.HINT, _controls(figure, key, at), plan.sentence, "live live-planner", scrolls=True
        )
        + "".join(_ranking(figure, key, task, plan, task == at["task"]) for task in say.TASKS)
        + PAGES.format(only=str(len(plan.rows) <= say.ROWS).lower())
        + _frontier(key, at["task"])
        + "".join(drawing(kind, at["task"], plan.values, hbm(figure, at)) for kind in say.BARS)
        + _tiers(figure, at, plan)
        + _numbers(figure, at["task"], plan)
        + f"<figcaption>{''.join(f'<p>{escape(text)}</p>' for text in say.RULES.values())}</figcaption></figure>"
    )


def hbm(figure, chosen) -> float:
    return figure.chip_of(chosen).hbm_bytes


def _controls(figure, key: str, chosen) -> str:
    menus = "".join(_menu(key, name, *menu, chosen) for name, menu in figure.menus.items())
    fields = "".join(_field(key, f, chosen[f.name], f.task not in ("", chosen["task"])) for f in say.FIELDS)
    still, has = unused(model(chosen["model"])), sizes(model(chosen["model"]))
    built = "".join(
        _field(key, say.Field(s, say.LABELS[s], "", 1, say.MOST[s]), str(has.get(s, "")), s in still) for s in SIZES
    )
    return (
        menus
        + fields
        + _own(key, chosen)
        + f"<details><summary>Change the model’s sizes</summary><div>{built}</div></details>"
    )


def _menu(key: str, name: str, label: str, options, task: str, chosen) -> str:
    texts = [(o, f"{int(o):,}" if o.isdigit() else o) for o in options]
    inner = "".join(
        f'<option value="{escape(o)}"{" selected" if o == chosen[name] else ""}>{escape(t)}</option>' for o, t in texts
    )
    hidden = " hidden" if task not in ("", chosen["task"]) else ""
    return (
        f'<div data-of="{name}"{hidden}><label for="{key}-{name}">{escape(label)}</label>'
        f'<select id="{key}-{name}" name="{name}" autocomplete="off">{inner}</select></div>'
    )


def _field(key: str, f: say.Field, value: str, hidden: bool) -> str:
    mode = "numeric" if f.whole else "decimal"
    return (
        f'<div data-of="{f.name}"{" hidden" if hidden else ""}><label for="{key}-{f.name}">{escape(f.label)}</label>'
        f'<input type="text" inputmode="{mode}" id="{key}-{f.name}" name="{f.name}" maxlength="16" autocomplete="off" '
        f'value="{escape(value)}" aria-describedby="{key}-said"></div>'
    )


def _own(key: str, chosen) -> str:
    """The layout that a reader types, with what is wrong with it under it."""
    hidden = " hidden" if chosen["task"] != "train" else ""
    return (
        f'<div data-of="own"{hidden}><label for="{key}-own">{escape(say.OWN)}</label>'
        f'<input type="text" id="{key}-own" name="own" maxlength="{say.LONG}" autocomplete="off" autocapitalize="off" '
        f'spellcheck="false" value="{escape(chosen["own"])}" aria-describedby="{key}-own-said">'
        f'<p id="{key}-own-said" aria-live="polite"></p></div>'
    )


def cells(task: str, row, of_hbm: float) -> tuple[str, ...]:
    """Numbers of a ranked line, as the table shows them."""
    if task == "serve":
        return reading(row.plan.speed), reading(row.plan.load.first.mid, "s"), reading(row.plan.rate)
    held = reading(row.memory, "B")
    if not row.fits:
        held = say.LACKS.format(memory=held, missing=reading(row.memory - of_hbm, "B"))
    return reading(row.seconds, "s"), held


PAGES = (
    '<p class="live-pages" hidden><button type="button" data-turn="-1" aria-disabled="true">Earlier</button> '
    '<button type="button" data-turn="1" aria-disabled="{only}">Later</button></p>'
)
LINE = (
    '<tr data-row="{n}"{hidden}><th scope="row"><label><input type="radio" name="{name}"{more} hidden> <span>{words}</span></label></th>'
    "{cells}</tr>"
)


def _ranking(figure, key: str, task: str, plan, shown: bool) -> str:
    """The table of a task; that of the other has empty lines."""
    lines, most, name, (first, *others) = [], hbm(figure, figure.chosen()), f"{key}-pick-{task}", say.COLUMNS[task]
    for n, row in enumerate(plan.rows[: say.ROWS] if shown else ()):
        more = f' value="{row.name}"{" checked" if n == plan.picked else ""}'
        texts = "".join(f"<td>{escape(text)}</td>" for text in cells(task, row, most))
        lines.append(LINE.format(n=n, hidden="", name=name, more=more, words=escape(row.words), cells=texts))
    empty = "<td></td>" * len(others)
    hidden = {"hidden": " hidden", "name": name, "more": "", "words": "", "cells": empty}
    lines += [LINE.format(n=n, **hidden) for n in range(len(lines), say.ROWS)]
    first_page = {"first": 1, "last": min(say.ROWS, len(plan.rows)), "count": f"{len(plan.rows):,}"}
    page = say.PAGE[task].format(**first_page) if shown else ""
    heads = "".join(f'<th scope="col">{escape(text)}</th>' for text in (first, *others))
    return (
        f'<table class="table live-ranked" data-task="{task}"{"" if shown else " hidden"}><caption data-page>{escape(page)}</caption>'
        f"<thead><tr>{heads}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    )


def _frontier(key: str, task: str) -> str:
    """The place of the frontier, which the script draws, and the slider that moves along it."""
    return (
        f'<div class="live-drawn live-frontier" data-task="serve"{"" if task == "serve" else " hidden"}>'
        f'<p aria-hidden="true">{escape(say.FRONTIER["title"])}</p><svg data-frontier viewBox="0 0 {WIDE} {TALL}" role="img" '
        f'aria-label="{escape(say.FRONTIER["title"])}"></svg><label for="{key}-point">{escape(say.MOVE)}</label>'
        f'<input type="range" id="{key}-point" min="0" max="0" step="1" value="0" autocomplete="off"></div>'
    )


def share(kind: str, task: str, name: str, values, most: float) -> float:
    """Of a bar, between 0 and 1: a part of all seconds, or of the device."""
    whole = sum(values[n] for n in say.BARS[kind][task])
    return values[name] / (max(most, whole) if kind == "memory" else whole)


def drawing(kind: str, task: str, values, most: float) -> str:
    """Bars with their numbers; those of nothing are left out."""
    groups, said, n = [], [], 0
    for of, bars in say.BARS[kind].items():
        for name, label in bars.items():
            shown = of == task and not math.isnan(values.get(name, math.nan)) and values[name] > 0
            text = reading(values[name], "B" if kind == "memory" else "s") if shown else ""
            wide = WIDE * share(kind, task, name, values, most) if shown else 0
            groups.append(
                f'<g data-bar="{name}" transform="translate(0,{HIGH * n})"{"" if shown else " style=display:none"}>'
                f'<text y="14">{escape(label)}</text><text x="{WIDE}" y="14" text-anchor="end">{escape(text)}</text>'
                f'<rect class="live-track" x=".5" y="19.5" width="{WIDE - 1}" height="9"/><rect class="live-fill" '
                f'y="19" width="{wide:.1f}" height="10"/></g>'
            )
            if shown:
                n += 1
                said.append(f"{label} {text}")
    title = say.DRAWN[kind]
    return (
        f'<div class="live-drawn"{"" if n else " hidden"}><p aria-hidden="true">{escape(title)}</p>'
        f'<svg data-drawing="{kind}" viewBox="0 0 {WIDE} {HIGH * max(n, 1)}" role="img" '
        f'aria-label="{escape(title)}: {escape("; ".join(said))}">{"".join(groups)}</svg></div>'
    )


def _tiers(figure, chosen, plan) -> str:
    """What the picked layout sends over each tier: a row for each kind, the last one with seconds."""
    kinds, last = list(SENT.values()), f"{escape(say.TABLE['busy'])} <small>{escape(say.TABLE['kind'])}</small>"
    shown = tiers.table(figure.chip_of(chosen), plan.values) if chosen["task"] == "train" else []
    texts, wide = {row[0]: row[1:] for row in shown}, len(tiers.TIERS)

    def line(name: str, head: str, tag: str) -> str:
        some = texts.get(name, ())
        cells = (
            f"<{tag}{'' if n < len(some) else ' hidden'}>{escape(some[n] if n < len(some) else '')}</{tag[:2]}>"
            for n in range(wide)
        )
        hidden = "" if some else " hidden"
        return f'<tr{hidden}><th scope="{"col" if tag != "td" else "row"}">{head}</th>{"".join(cells)}</tr>'

    body = "".join(line(name, escape(name), "td") for name in kinds) + line(say.TABLE["busy"], last, "td")
    head, hidden = line(say.TABLE["what"], escape(say.TABLE["what"]), 'th scope="col"'), "" if shown else " hidden"
    return (
        f'<table class="table live-sent" data-task="train"{hidden}><caption>{escape(say.TABLE["title"])}</caption>'
        f"<thead>{head}</thead><tbody>{body}</tbody></table>"
    )


def _numbers(figure, task: str, plan) -> str:
    bodies = []
    for of, results in say.RESULTS.items():
        lines = "".join(
            f'<tr><th scope="row">{escape(r.label)} <small>{escape(say.KINDS[of][r.name])}</small></th>'
            f'<td data-result="{r.name}">{escape(plan.said[r.name] if of == task else "")}</td></tr>'
            for r in results
        )
        bodies.append(f'<tbody data-task="{of}"{"" if of == task else " hidden"}>{lines}</tbody>')
    return (
        '<table class="table live-numbers"><caption>The picked line in numbers</caption>'
        '<thead><tr><th scope="col">what</th><th scope="col">how much</th></tr></thead>' + "".join(bodies) + "</table>"
    )
