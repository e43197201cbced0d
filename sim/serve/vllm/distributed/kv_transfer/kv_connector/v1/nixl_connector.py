# SPDX-License-Identifier: Apache-2.0
"""Carries the key-value cache of a prompt from the engine that computed it to the one that decodes: a
transfer takes the time that its bytes need."""
import time


class NixlConnector:
    def __init__(self, vllm_config, gpu):
        self.vllm_config, self.gpu = vllm_config, gpu
        self.under_way = []  # (end, request id)
        self.free_ns = 0

    def start_load_kv(self, metadata):
        config = self.vllm_config
        for request_id, tokens in metadata:
            fault = config.acting("kv")
            seconds = tokens * config.kv_bytes_per_token / config.kv_bytes_per_second * (fault.size if fault else 1)
            begin = max(time.monotonic_ns(), self.free_ns)
            self.free_ns = begin + int(seconds * 1e9)
            self.under_way.append((self.free_ns, request_id))

    def get_finished(self, wait):
        """Requests whose cache is here; wait: there is nothing else to do."""
        if wait and self.under_way:
            time.sleep(min(0.005, max(0.0, (self.under_way[0][0] - time.monotonic_ns()) / 1e9)))
        now = time.monotonic_ns()
        done = [r for end, r in self.under_way if end <= now]
        self.under_way = [x for x in self.under_way if x[0] > now]
        return done

    def wait_for_save(self):
        """The cache of the step's tokens is copied beside the step's kernels."""
        self.gpu.copy_out(1 << 16)
