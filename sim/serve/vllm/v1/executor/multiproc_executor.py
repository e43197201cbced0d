# SPDX-License-Identifier: Apache-2.0
"""One process per GPU. A call goes to all of them; rank 0 answers it."""
import multiprocessing
import multiprocessing.connection
import os
import queue
import threading

from vllm.v1.executor.abstract import Executor


class WorkerDied(Exception):
    """Which rank; the steps under way are lost."""

    def __init__(self, rank):
        super().__init__(f"worker {rank} died")
        self.rank = rank


class FutureWrapper:
    """The answer to the oldest call that nobody has waited for."""

    def __init__(self, executor):
        self.executor, self.value = executor, None

    def done(self):
        return self.executor.connections[0].poll()

    def result(self):
        self.value = self.executor.wait_for_answer()
        return self.value


class MultiprocExecutor(Executor):
    def __init__(self, vllm_config):
        self.vllm_config, ranks = vllm_config, vllm_config.tensor_parallel_size
        self.workers, self.connections, self.controls = [None] * ranks, [None] * ranks, [None] * ranks
        for rank in range(ranks):
            self._start_worker(rank)
        for connection in self.connections:
            connection.recv()
        self._init_group()

    def _start_worker(self, rank):
        context = multiprocessing.get_context("spawn")
        self.connections[rank], theirs = context.Pipe()
        self.controls[rank], control = context.Pipe()
        worker = self.workers[rank] = context.Process(
            target=WorkerProc.worker_main, args=(self.vllm_config, rank, theirs, control), name=f"VllmWorker-{rank}", daemon=True)
        worker.start()
        theirs.close()
        control.close()

    def _init_group(self):
        """Rank 0 hands the communicator's id to the others; answers to earlier calls are not wanted any more."""
        for connection in self.connections:
            connection.send(("init_group", ()))
        while not isinstance(raw := self.connections[0].recv(), bytes):
            pass
        for connection in self.connections[1:]:
            connection.send(raw)
        for connection in self.connections:
            connection.recv()

    def wait_for_answer(self):
        """Rank 0's; raises WorkerDied."""
        ranks = {w.sentinel: rank for rank, w in enumerate(self.workers)}
        ready = multiprocessing.connection.wait([self.connections[0], *ranks])
        if self.connections[0] in ready:
            try:
                return self.connections[0].recv()
            except (EOFError, OSError):
                raise WorkerDied(0) from None
        raise WorkerDied(ranks[ready[0]])

    def restart_worker(self, rank):
        """The others wait in the communicator until the successor is loaded; then all join a new one."""
        self.workers[rank].join()
        self._start_worker(rank)
        self.connections[rank].recv()
        for other, control in enumerate(self.controls):
            if other != rank:
                control.send("revoke")
        self._init_group()

    def execute_model(self, scheduler_output, non_block=False):
        future = self.collective_rpc("execute_model", args=(scheduler_output,))
        return future if non_block else future.result()

    def collective_rpc(self, method, timeout=None, args=()):
        for connection in self.connections:
            try:
                connection.send((method, args))
            except OSError:
                pass  # whoever waits for the answer is told that it died
        return FutureWrapper(self)

    def shutdown(self):
        for connection in self.connections:
            try:
                connection.send((None, ()))
            except OSError:
                pass
        for worker in self.workers:
            worker.join(10)


class WorkerProc:
    """Executes calls in its main thread, which has the GPU; another one sends the answers."""

    def __init__(self, vllm_config, rank, connection, control):
        from vllm.v1.worker.gpu_model_runner import GPUModelRunner
        self.rank, self.connection, self.control = rank, connection, control
        self.model_runner = GPUModelRunner(vllm_config, rank)
        self.output_queue = queue.Queue()
        threading.Thread(target=self.async_output_busy_loop, name="WorkerAsyncOutput", daemon=True).start()
        threading.Thread(target=self.monitor, name="WorkerMonitor", daemon=True).start()

    @staticmethod
    def worker_main(vllm_config, rank, connection, control):
        worker = WorkerProc(vllm_config, rank, connection, control)
        connection.send("loaded")
        worker.worker_busy_loop()

    def monitor(self):
        """The main thread may be waiting for a rank that died."""
        try:
            while self.control.recv() == "revoke":
                self.model_runner.gpu.revoke_comm()
        except EOFError:
            os._exit(1)

    def _exchange(self, raw):
        """The communicator's id, from rank 0 to the others."""
        if raw is None:
            return self.connection.recv()
        self.output_queue.join()
        self.connection.send(raw)
        return raw

    def worker_busy_loop(self):
        while True:
            try:
                method, args = self.connection.recv()
            except EOFError:
                os._exit(1)
            if method is None:
                break
            if method == "init_group":
                self.model_runner.init_group(self._exchange)
                self.connection.send("ready")
                continue
            self.handle_output(getattr(self.model_runner, method)(*args))
        self.output_queue.put(None)
        self.output_queue.join()

    def handle_output(self, output):
        if self.rank == 0:
            self.output_queue.put(output)

    def async_output_busy_loop(self):
        while (output := self.output_queue.get()) is not None:
            self.enqueue_output(output)
            self.output_queue.task_done()
        self.output_queue.task_done()

    def enqueue_output(self, output):
        self.connection.send(output)
