"""Attacks on the grading of a class, and what honest students do to their notebooks.

breaks, forge, outside, protocol, shell    code that an answer may hold;  edits, files, damaged: what may be handed in
kinds, batch, target, unguarded            all of them as a class, the course that they attack, and what they win without walls
test_*                                     nobody wins, nothing leaks, nobody honest loses
"""
