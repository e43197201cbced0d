# SPDX-License-Identifier: Apache-2.0
"""The API process's requests: what came back is handed to whoever waits for it."""
import time


class RequestState:
    def __init__(self, request, queue):
        self.request_id, self.queue = request.request_id, queue
        self.num_prompt_tokens = len(request.prompt_token_ids)
        self.handed_ns = time.monotonic_ns()


class OutputProcessor:
    def __init__(self):
        self.request_states = {}

    def add_request(self, request, queue):
        self.request_states[request.request_id] = RequestState(request, queue)

    def abort_requests(self, request_ids):
        for request_id in request_ids:
            self.request_states.pop(request_id, None)

    def process_outputs(self, engine_core_outputs):
        for output in engine_core_outputs:
            state = self.request_states.get(output.request_id)
            if state is None:
                continue
            output.handed_ns, output.delivered_ns = state.handed_ns, time.monotonic_ns()
            state.queue.put_nowait(output)
            if output.finish_reason is not None:
                del self.request_states[output.request_id]
