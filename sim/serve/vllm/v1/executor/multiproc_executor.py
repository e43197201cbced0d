# SPDX-License-Identifier: Apache-2.0
"""One process per GPU. A call goes to all of them; rank 0 answers it."""
import multiprocessing
import multiprocessing.connection
import os
import queue
import threading

from vllm.v1.executor.abstract import Executor


class FutureWrapper:
    """The answer to the oldest call that nobody has waited for."""

    def __init__(self, connection):
        self.connection, self.value = connection, None

    def done(self):
        return self.connection.poll()

    def result(self):
        self.value = self.connection.recv()
        return self.value


class MultiprocExecutor(Executor):
    def __init__(self, vllm_config):
        context = multiprocessing.get_context("spawn")
        self.workers, self.connections = [], []
        # rank 0 hands the communicator's id to the others
        pipes = [context.Pipe() for _ in range(vllm_config.tensor_parallel_size - 1)]
        for rank in range(vllm_config.tensor_parallel_size):
            ours, theirs = context.Pipe()
            ids = [p[0] for p in pipes] if rank == 0 else [pipes[rank - 1][1]]
            worker = context.Process(target=WorkerProc.worker_main, args=(vllm_config, rank, theirs, ids),
                                     name=f"VllmWorker-{rank}", daemon=True)
            worker.start()
            theirs.close()
            self.workers.append(worker)
            self.connections.append(ours)
        for connection in self.connections:
            connection.recv()

    def execute_model(self, scheduler_output, non_block=False):
        future = self.collective_rpc("execute_model", args=(scheduler_output,))
        return future if non_block else future.result()

    def collective_rpc(self, method, timeout=None, args=()):
        for connection in self.connections:
            connection.send((method, args))
        return FutureWrapper(self.connections[0])

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

    def __init__(self, vllm_config, rank, connection, ids):
        from vllm.v1.worker.gpu_model_runner import GPUModelRunner
        self.rank, self.connection = rank, connection
        self.model_runner = GPUModelRunner(vllm_config, rank, ids)
        self.output_queue = queue.Queue()
        threading.Thread(target=self.async_output_busy_loop, name="WorkerAsyncOutput", daemon=True).start()

    @staticmethod
    def worker_main(vllm_config, rank, connection, ids):
        worker = WorkerProc(vllm_config, rank, connection, ids)
        connection.send("ready")
        worker.worker_busy_loop()

    def worker_busy_loop(self):
        while True:
            try:
                method, args = self.connection.recv()
            except EOFError:
                os._exit(1)
            if method is None:
                break
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
