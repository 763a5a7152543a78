"""What is said twice in the code, held against itself over settings that are drawn, chips of TPUs and of GPUs in turn.

Where twins disagree today the test of their agreement is marked `xfail(strict=True)`, so that whoever makes them one is told to
take the mark away, and beside it a test that passes bounds how far they are apart, so that it does not grow.
"""
