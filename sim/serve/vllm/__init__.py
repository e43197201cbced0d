# SPDX-License-Identifier: Apache-2.0
"""A double of vLLM's engine, version 1, for tests: its processes, modules, classes and functions have
vLLM's names, and it schedules as vLLM does; models, tokens and GPUs are simulated (docs/sim.md)."""
