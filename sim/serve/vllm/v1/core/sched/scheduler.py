# SPDX-License-Identifier: Apache-2.0
"""Continuous batching with chunked prefill: running requests first, then waiting ones, as far as the
budget of tokens and the cache's blocks reach. The latest request is preempted when blocks run out."""
import collections
import time

from vllm.v1.core.kv_cache_manager import KVCacheManager
from vllm.v1.core.sched.output import CachedRequestData, NewRequestData, SchedulerOutput
from vllm.v1.engine import EngineCoreOutput, EngineCoreOutputs, FinishReason
from vllm.v1.request import RequestStatus


class Scheduler:
    def __init__(self, vllm_config):
        self.vllm_config = vllm_config
        self.kv_cache_manager = KVCacheManager(vllm_config.block_size, vllm_config.num_gpu_blocks)
        self.requests = {}
        self.waiting = collections.deque()
        self.running = []
        self.receiving = {}  # wait for their cache from another engine
        self.finished_req_ids = set()
        self.number = 0

    # ---- requests ----

    def add_request(self, request):
        self.requests[request.request_id] = request
        if self.vllm_config.kv_role == "kv_consumer" and request.kv_transfer_params:
            request.status = RequestStatus.WAITING_FOR_REMOTE_KVS
            self.receiving[request.request_id] = False
        else:
            self.waiting.append(request)

    def finish_requests(self, request_ids, finished_status):
        for request_id in request_ids:
            request = self.requests.get(request_id)
            if request is None:
                continue
            if request in self.running:
                self.running.remove(request)
            elif request in self.waiting:
                self.waiting.remove(request)
            self.receiving.pop(request_id, None)
            request.status = finished_status
            self._free_request(request)

    def _free_request(self, request):
        self.finished_req_ids.add(request.request_id)
        self.kv_cache_manager.free(request)
        del self.requests[request.request_id]

    def has_requests(self):
        return bool(self.running or self.waiting or self.receiving)

    # ---- a step ----

    def _wanted(self, request):
        """Tokens that the request could have now; 0: all that it may have are under way."""
        known = request.num_tokens + request.num_output_placeholders
        if request.num_output_tokens + request.num_output_placeholders >= request.max_tokens:
            return 0
        return known + len(request.spec_token_ids) - request.num_computed_tokens

    def _preempt(self):
        request = self.running.pop()
        self.kv_cache_manager.free(request)
        request.status = RequestStatus.PREEMPTED
        request.num_computed_tokens = request.num_output_placeholders = 0
        request.spec_token_ids = []
        self.waiting.appendleft(request)
        return request

    def preempt_all(self):
        """A new worker has no cache and knows no request."""
        while self.running:
            self._preempt()
        for request in self.waiting:
            request.scheduled_ns = 0
        self.receiving = dict.fromkeys(self.receiving, False)

    def _sort_waiting(self, milliseconds):
        """A policy that looks at all pairs of requests, again and again: the fault `schedule`."""
        until = time.thread_time_ns() + int(milliseconds * 1e6)
        order = 0
        while time.thread_time_ns() < until:
            for a in range(200):
                order ^= a * 31
        return order

    def schedule(self):
        config, begin = self.vllm_config, time.monotonic_ns()
        budget, counts, drafts, new, contexts = config.max_num_batched_tokens, {}, {}, [], {}
        fault = config.acting("schedule")
        if fault:
            self._sort_waiting(fault.size)
        preempted = False
        for request in list(self.running):
            n = min(self._wanted(request), budget)
            if n <= 0 or request not in self.running:
                continue
            if request.spec_token_ids and n <= len(request.spec_token_ids):
                request.spec_token_ids, n = [], 1  # no budget for all of them
            while not self.kv_cache_manager.allocate_slots(request, n):
                preempted = True
                if self._preempt() is request:
                    n = 0
                    break
            if n:
                counts[request.request_id] = n
                budget -= n
        # whoever was preempted after it was chosen
        counts = {r: n for r, n in counts.items() if self.requests[r].status == RequestStatus.RUNNING}
        while self.waiting and not preempted and budget > 0 and len(self.running) < config.max_num_seqs:
            request = self.waiting[0]
            n = min(self._wanted(request), budget)
            if not self.kv_cache_manager.allocate_slots(request, n):
                break
            self.waiting.popleft()
            self.running.append(request)
            if not request.scheduled_ns:
                new.append(NewRequestData(request.request_id, request.num_prompt_tokens, request.num_computed_tokens,
                                          request.num_output_tokens))
            request.scheduled_ns = request.scheduled_ns or begin
            request.status = RequestStatus.RUNNING
            counts[request.request_id] = n
            budget -= n
        return self._make_output(begin, counts, drafts, new, contexts)

    def _make_output(self, begin, counts, drafts, new, contexts):
        fresh = {data.req_id for data in new}
        for request_id, n in counts.items():
            request = self.requests[request_id]
            contexts[request_id] = request.num_computed_tokens
            if request.spec_token_ids and n > len(request.spec_token_ids):
                drafts[request_id] = request.spec_token_ids
        old = [r for r in counts if r not in fresh]
        cached = CachedRequestData(old, [contexts[r] for r in old], [self.requests[r].num_output_tokens for r in old])
        self.number += 1
        output = SchedulerOutput(new, cached, counts, sum(counts.values()), drafts, self.finished_req_ids,
                                 [(r, self.requests[r].num_prompt_tokens) for r, asked in self.receiving.items() if not asked],
                                 self.number, begin)
        self.receiving = dict.fromkeys(self.receiving, True)
        self.finished_req_ids = set()
        for request_id, n in counts.items():
            self._update_after_schedule(self.requests[request_id], n)
        return output

    def _update_after_schedule(self, request, n):
        request.num_computed_tokens += n
        if request.num_computed_tokens >= request.num_tokens + request.num_output_placeholders:
            request.num_output_placeholders += 1

    def update_from_output(self, scheduler_output, model_runner_output):
        outputs = []
        for request_id, tokens in zip(model_runner_output.req_ids, model_runner_output.sampled_token_ids):
            request = self.requests.get(request_id)
            if request is None or not tokens:
                continue
            proposed = len(scheduler_output.scheduled_spec_decode_tokens.get(request_id, ()))
            if request.status == RequestStatus.RUNNING:
                request.num_output_placeholders = max(0, request.num_output_placeholders - 1)
                request.num_computed_tokens -= max(0, proposed - (len(tokens) - 1))  # drafts that were refused
            del tokens[request.max_tokens - request.num_output_tokens:]
            request._output_token_ids.extend(tokens)
            request.spec_token_ids = [0] * self.vllm_config.num_speculative_tokens
            done = request.num_output_tokens >= request.max_tokens
            outputs.append(EngineCoreOutput(request_id, tokens, FinishReason.LENGTH if done else None,
                                            {"tokens": request.num_prompt_tokens} if done else None))
            if done:
                if request in self.running:
                    self.running.remove(request)
                elif request in self.waiting:
                    self.waiting.remove(request)
                request.status = RequestStatus.FINISHED_LENGTH_CAPPED
                self._free_request(request)
        for request_id in model_runner_output.finished_recving:
            self._received(request_id)
        return {0: EngineCoreOutputs(outputs, time.monotonic())} if outputs else {}

    def _received(self, request_id):
        request = self.requests.get(request_id)
        if self.receiving.pop(request_id, None) is None or request is None:
            return
        # all but the last token of the prompt is in the cache; that one yields the next token
        request.num_computed_tokens = request.num_prompt_tokens - 1
        request.status = RequestStatus.WAITING
        self.waiting.append(request)
