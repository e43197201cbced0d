# SPDX-License-Identifier: Apache-2.0
"""A worker's step on its simulated GPU: kernels whose time follows the new tokens and the context."""
import os
import random
import sys
import threading
import time

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../.."))

import simgpu  # noqa: E402

from triton.compiler.compiler import compile as triton_compile  # noqa: E402

from vllm.config import Truth  # noqa: E402
from vllm.distributed.kv_transfer.kv_connector.v1.nixl_connector import NixlConnector  # noqa: E402
from vllm.distributed.kv_transfer.kv_connector.v1.shared_storage_connector import SharedStorageConnector  # noqa: E402
from vllm.v1.outputs import ModelRunnerOutput  # noqa: E402
from vllm.v1.sample.sampler import Sampler  # noqa: E402


def make_ndarray_with_pad(rows, milliseconds):
    """Pads lists of tokens to one length: the fault `spike`, rare and long."""
    until = time.thread_time_ns() + int(milliseconds * 1e6)
    padded = []
    while time.thread_time_ns() < until:
        padded = [row + [0] * (64 - len(row)) for row in rows]
    return padded


def collect_statistics(vllm_config, rank):
    """A thread of the worker that computes in Python: the fault `gil`."""
    total = 0
    while vllm_config.acting("gil", rank):
        for token in range(20000):
            total += token & 7


class GPUModelRunner:
    def __init__(self, vllm_config, rank):
        config = self.vllm_config = vllm_config
        self.rank = rank
        self.rng = random.Random(config.seed * 1000003 + rank)
        # all ranks draw the same tokens
        self.sampler = Sampler(config, rank, random.Random(config.seed))
        self.gpu = simgpu.Gpu(config.first_device + rank)
        time.sleep(config.load_seconds)
        self.truth = Truth(config.truth)
        self.statistics = None  # the thread that the fault `gil` starts
        self.requests = {}  # request id -> prompt tokens, computed tokens, output tokens
        self.kv_connector = NixlConnector(config, self.gpu) if config.kv_role else None
        self.storage = SharedStorageConnector(config, rank)

    def init_group(self, exchange):
        self.gpu.init_comm(self.rank, self.vllm_config.tensor_parallel_size, exchange)

    def execute_model(self, scheduler_output):
        begin = time.monotonic_ns()
        received = []
        if self.kv_connector and self.vllm_config.kv_role == "kv_consumer":
            self.kv_connector.start_load_kv(scheduler_output.kv_connector_metadata)
            received = self.kv_connector.get_finished(wait=not scheduler_output.num_scheduled_tokens)
        self._update_states(scheduler_output)
        if self.vllm_config.acting("gil", self.rank) and not (self.statistics and self.statistics.is_alive()):
            self.statistics = threading.Thread(target=collect_statistics, args=(self.vllm_config, self.rank), daemon=True)
            self.statistics.start()
        if not scheduler_output.num_scheduled_tokens:
            return ModelRunnerOutput([], [], received)
        req_ids = self._prepare_inputs(scheduler_output)
        self.storage.wait_for_layer_load()
        self._model_forward(scheduler_output)
        if self.kv_connector and self.vllm_config.kv_role == "kv_producer":
            self.kv_connector.wait_for_save()
        self.storage.wait_for_save()
        sampled = self._sample(req_ids, scheduler_output)
        output = self._bookkeeping_sync(req_ids, sampled, scheduler_output, received)
        if self.vllm_config.num_speculative_tokens:
            self.propose_draft_token_ids(len(req_ids))
        self.gpu.synchronize()
        self.truth.write(worker_step=scheduler_output.number, engine=self.vllm_config.engine, rank=self.rank,
                         pid=os.getpid(), begin_ns=begin, end_ns=time.monotonic_ns(),
                         tokens=scheduler_output.total_num_scheduled_tokens, batch=len(req_ids),
                         context=sum(scheduler_output.scheduled_cached_reqs.num_computed_tokens),
                         drafts=sum(map(len, scheduler_output.scheduled_spec_decode_tokens.values())),
                         expected_ns=int(self._expected(scheduler_output)))
        return output

    def _update_states(self, scheduler_output):
        for request_id in scheduler_output.finished_req_ids:
            self.requests.pop(request_id, None)
        for data in scheduler_output.scheduled_new_reqs:
            self.requests[data.req_id] = [data.num_prompt_tokens, data.num_computed_tokens, data.num_output_tokens]
        cached = scheduler_output.scheduled_cached_reqs
        for request_id, computed, outputs in zip(cached.req_ids, cached.num_computed_tokens, cached.num_output_tokens):
            self.requests[request_id][1:] = computed, outputs

    def _prepare_inputs(self, scheduler_output):
        req_ids = list(scheduler_output.num_scheduled_tokens)
        fault = self.vllm_config.acting("spike", self.rank)
        if fault:
            make_ndarray_with_pad([[1] * 8 for _ in req_ids], fault.size)
        self.gpu.copy_in(4 * scheduler_output.total_num_scheduled_tokens)
        return req_ids

    def _kernel(self, name, ns, grid=(256, 1, 1)):
        config, slow = self.vllm_config, 1.0
        fault = config.acting("slow", self.rank) or ("attention" in name and config.acting("kernel", self.rank)) or \
            ("mlp" in name and config.acting("expert", self.rank))
        if fault:
            slow = fault.size
        ns *= slow * (1 + 0.004 * self.rng.gauss(0, 1))
        fault = config.acting("eager", self.rank)
        if fault:
            self._forward_eager(name, ns, fault.size)
        else:
            self.gpu.kernel(name, ns, grid)

    def _forward_eager(self, name, ns, milliseconds):
        """Operator by operator, without a graph and unfused: ten small kernels for one, each dispatched by Python."""
        for i in range(10):
            until = time.thread_time_ns() + int(milliseconds * 1e5)
            while time.thread_time_ns() < until:
                pass
            self.gpu.kernel(f"eager_op{i}_{name}", ns / 10, (32, 1, 1))

    def _model_forward(self, scheduler_output):
        config, tokens = self.vllm_config, scheduler_output.total_num_scheduled_tokens
        counts = scheduler_output.num_scheduled_tokens
        context = sum(self.requests[r][1] for r in counts)
        layer = (config.base_ns + tokens * config.token_ns) / config.layers
        attention = (context * config.context_ns) / config.layers + 0.1 * layer
        blocks = -(-tokens // 64)
        fault = config.acting("triton", self.rank)
        if fault:
            triton_compile("embedding_kernel", fault.size)
        self.gpu.kernel("embedding_kernel(float*, long const*)", 20_000)
        for _ in range(config.layers):
            self._kernel("gemm_f16_128x128_tn(qkv)", 0.25 * layer, (8 * blocks, 1, 1))
            self._kernel("flash_attention_kernel(half*)", attention, (4 * len(counts), 1, 1))
            self._kernel("gemm_f16_128x128_tn(proj)", 0.1 * layer, (8 * blocks, 1, 1))
            self.gpu.allreduce(tokens * 8192)
            self.gpu.join_comm()
            self._kernel("gemm_f16_128x256_tn(mlp)", 0.55 * layer, (32 * blocks, 1, 1))
            self.gpu.allreduce(tokens * 8192)
            self.gpu.join_comm()

    def _expected(self, scheduler_output):
        """What the kernels take without a fault."""
        config = self.vllm_config
        context = sum(self.requests[r][1] for r in scheduler_output.num_scheduled_tokens)
        return config.base_ns + scheduler_output.total_num_scheduled_tokens * config.token_ns + \
            context * config.context_ns + 170_000 + 400_000 * config.num_speculative_tokens

    def _sample(self, req_ids, scheduler_output):
        self.gpu.kernel("sampling_kernel(float*)", 150_000, (len(req_ids), 1, 1))
        return self.sampler.forward(req_ids, scheduler_output.scheduled_spec_decode_tokens)

    def _bookkeeping_sync(self, req_ids, sampled, scheduler_output, received):
        """The tokens of those whose prompt is done with this step."""
        self.gpu.copy_out(4 * len(req_ids))
        self.gpu.synchronize()
        tokens = []
        for request_id, some in zip(req_ids, sampled):
            prompt, computed, outputs = self.requests[request_id]
            done = computed + scheduler_output.num_scheduled_tokens[request_id] >= prompt + outputs
            tokens.append(some if done else [])
        return ModelRunnerOutput(req_ids, tokens, received)

    def propose_draft_token_ids(self, batch):
        for _ in range(self.vllm_config.num_speculative_tokens):
            self.gpu.kernel("draft_kernel(float*)", 400_000, (batch, 1, 1))
