"""Exact plans on a GPU (extra `gpu`): the search of the CPU's planner around sweeps that run on the device.

`safe2real.solve(..., device="cuda")` and `safe2real.planning.solve_many(..., device="cuda")` are the ways in.
"""
