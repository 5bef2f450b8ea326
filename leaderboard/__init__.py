"""The record of a run, its verification and the board. Reads nothing but records; loads no trainer.

`schema` and `bundle` define the run directory, `metrics` every figure, `verify` the checks, `submit` and
`site` the board.
"""
