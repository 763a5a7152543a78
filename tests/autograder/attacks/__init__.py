"""Attacks on the grading of a class, and what honest students do to their notebooks.

breaks, forge, outside, protocol, shell    code that an answer may hold;  edits, files, damaged: what may be handed in
kinds, batch, target                       all of them as a class, and the course that they attack
test_*                                     nobody wins, nothing leaks, nobody honest loses
"""
