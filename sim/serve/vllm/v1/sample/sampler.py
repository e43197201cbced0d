# SPDX-License-Identifier: Apache-2.0
"""Chooses tokens; which ones does not matter."""
import time


class Sampler:
    def __init__(self, vllm_config, rank, rng):
        self.vllm_config, self.rank, self.rng = vllm_config, rank, rng

    def forward(self, req_ids, drafts):
        fault = self.vllm_config.acting("sample", self.rank)
        if fault:
            self.apply_penalties(fault.size)
        ghost = self.vllm_config.acting("ghost")
        chance = 0.0 if ghost else self.vllm_config.acceptance
        return [self._accept(len(drafts.get(r, ())), chance) for r in req_ids]

    def _accept(self, proposed, chance):
        n = 1
        while n <= proposed and self.rng.random() < chance:
            n += 1
        return [7] * n

    def apply_penalties(self, milliseconds):
        """A loop over the vocabulary in Python: the fault `sample`."""
        until = time.thread_time_ns() + int(milliseconds * 1e6)
        total = 0
        while time.thread_time_ns() < until:
            for token in range(500):
                total += token & 7
        return total
