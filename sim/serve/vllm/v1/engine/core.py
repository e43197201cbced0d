# SPDX-License-Identifier: Apache-2.0
"""The engine's process: a loop that schedules a step, has it executed and hands its tokens back."""
import collections
import os
import queue
import threading
import time

from vllm.config import Truth
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.engine import EngineCoreRequestType
from vllm.v1.executor.multiproc_executor import MultiprocExecutor, WorkerDied
from vllm.v1.request import Request, RequestStatus


class EngineCore:
    def __init__(self, vllm_config):
        self.vllm_config = vllm_config
        self.model_executor = MultiprocExecutor(vllm_config)
        self.scheduler = Scheduler(vllm_config)
        self.truth = Truth(vllm_config.truth)
        # tokens to verify are known only when a step has ended
        asynchronous = vllm_config.async_scheduling and not vllm_config.num_speculative_tokens
        self.batch_queue_size = 2 if asynchronous else 1
        self.batch_queue = collections.deque()
        self.step_fn = self.step_with_batch_queue if asynchronous else self.step

    def preprocess_add_request(self, request):
        return Request.from_engine_core_request(request)

    def add_request(self, request):
        self.scheduler.add_request(request)

    def abort_requests(self, request_ids):
        self.scheduler.finish_requests(request_ids, RequestStatus.FINISHED_ABORTED)

    def step(self):
        if not self.scheduler.has_requests():
            return {}
        scheduler_output = self.scheduler.schedule()
        future = self.model_executor.execute_model(scheduler_output, non_block=True)
        return self._finish(scheduler_output, future)

    def step_with_batch_queue(self):
        """Fills the queue before it waits for the oldest step, so that workers never wait for us."""
        if len(self.batch_queue) < self.batch_queue_size and self.scheduler.has_requests():
            scheduler_output = self.scheduler.schedule()
            # workers learn from one without tokens, too, which caches to fetch and which requests have ended
            if (scheduler_output.total_num_scheduled_tokens or scheduler_output.kv_connector_metadata
                    or scheduler_output.finished_req_ids or not self.batch_queue):
                future = self.model_executor.execute_model(scheduler_output, non_block=True)
                self.batch_queue.append((scheduler_output, future))
                if len(self.batch_queue) < self.batch_queue_size and not future.done():
                    return {}
        if not self.batch_queue:
            return {}
        return self._finish(*self.batch_queue.popleft())

    def _finish(self, scheduler_output, future):
        try:
            model_output = future.result()
        except WorkerDied as died:
            self.batch_queue.clear()
            self.scheduler.preempt_all()
            self.model_executor.restart_worker(died.rank)
            return {}
        outputs = self.scheduler.update_from_output(scheduler_output, model_output)
        if scheduler_output.total_num_scheduled_tokens:
            counts, drafts = scheduler_output.num_scheduled_tokens, scheduler_output.scheduled_spec_decode_tokens
            self.truth.write(step=scheduler_output.number, engine=self.vllm_config.engine,
                             begin_ns=scheduler_output.begin_ns, end_ns=time.monotonic_ns(),
                             tokens=scheduler_output.total_num_scheduled_tokens, batch=len(counts),
                             context=sum(scheduler_output.scheduled_cached_reqs.num_computed_tokens),
                             drafts=sum(map(len, drafts.values())), requests={r.rpartition("-")[0]: n for r, n in counts.items()})
        return outputs

    def has_work(self):
        return bool(self.scheduler.has_requests() or self.batch_queue)


class EngineCoreProc(EngineCore):
    """Threads read and write the sockets, so that the loop only ever waits for steps."""

    def __init__(self, vllm_config, connection):
        super().__init__(vllm_config)
        self.connection = connection
        self.input_queue, self.output_queue = queue.Queue(), queue.Queue()
        threading.Thread(target=self.process_input_sockets, name="input", daemon=True).start()
        threading.Thread(target=self.process_output_sockets, name="output", daemon=True).start()

    @staticmethod
    def run_engine_core(vllm_config, connection):
        core = EngineCoreProc(vllm_config, connection)
        connection.send("ready")
        core.run_busy_loop()
        core.model_executor.shutdown()
        core.output_queue.put(None)
        core.output_queue.join()

    def process_input_sockets(self):
        try:
            while True:
                kind, request = self.connection.recv()
                if kind == EngineCoreRequestType.ADD:
                    request = self.preprocess_add_request(request)
                self.input_queue.put((kind, request))
        except EOFError:
            self.input_queue.put((EngineCoreRequestType.END, None))

    def process_output_sockets(self):
        while (outputs := self.output_queue.get()) is not None:
            try:
                self.connection.send(outputs)
            except OSError:
                os._exit(1)  # nobody is left to answer
            self.output_queue.task_done()
        self.output_queue.task_done()

    def run_busy_loop(self):
        while self._process_input_queue():
            self._process_engine_step()

    def _process_input_queue(self):
        """False: the engine shall end."""
        while not self.has_work() or not self.input_queue.empty():
            kind, request = self.input_queue.get()
            if kind == EngineCoreRequestType.ADD:
                self.add_request(request)
            elif kind == EngineCoreRequestType.ABORT:
                self.abort_requests(request)
            else:
                return False
        return True

    def _process_engine_step(self):
        outputs = self.step_fn()
        for one in (outputs or {}).values():
            self.output_queue.put(one)
