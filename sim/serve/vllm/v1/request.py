# SPDX-License-Identifier: Apache-2.0
"""A request inside the engine."""
import enum


class RequestStatus(enum.IntEnum):
    WAITING = 0
    WAITING_FOR_REMOTE_KVS = 1
    RUNNING = 2
    PREEMPTED = 3
    FINISHED_LENGTH_CAPPED = 4
    FINISHED_ABORTED = 5


class Request:
    def __init__(self, request_id, prompt_token_ids, max_tokens, kv_transfer_params=None):
        self.request_id = request_id
        self.prompt_token_ids = prompt_token_ids
        self.num_prompt_tokens = len(prompt_token_ids)
        self.max_tokens = max_tokens
        self.kv_transfer_params = kv_transfer_params
        self.status = RequestStatus.WAITING
        self.num_computed_tokens = 0
        self.num_output_placeholders = 0  # tokens that a step under way will yield
        self.spec_token_ids = []
        self.blocks = 0
        self.scheduled_ns = 0
        self._output_token_ids = []

    @classmethod
    def from_engine_core_request(cls, request):
        return cls(request.request_id, request.prompt_token_ids, request.max_tokens, request.kv_transfer_params)

    @property
    def num_tokens(self):
        return self.num_prompt_tokens + len(self._output_token_ids)

    @property
    def num_output_tokens(self):
        return len(self._output_token_ids)

    def is_finished(self):
        return self.status >= RequestStatus.FINISHED_LENGTH_CAPPED
