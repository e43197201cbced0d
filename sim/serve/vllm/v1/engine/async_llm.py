# SPDX-License-Identifier: Apache-2.0
"""The API process's side of one engine."""
import asyncio
import multiprocessing
import os
import time

from vllm.v1.engine import EngineCoreRequest, EngineCoreRequestType
from vllm.v1.engine.core import EngineCoreProc
from vllm.v1.engine.output_processor import OutputProcessor


class AsyncLLM:
    def __init__(self, vllm_config):
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=EngineCoreProc.run_engine_core, args=(vllm_config, theirs),
                                       name="EngineCore")
        own = os.environ.get("SYSOM_SOCKET_PATH", "")
        os.environ["SYSOM_SOCKET_PATH"] = vllm_config.sysomd_socket or own
        self.process.start()
        os.environ["SYSOM_SOCKET_PATH"] = own
        theirs.close()
        self.output_processor = OutputProcessor()

    def wait_until_ready(self):
        self.connection.recv()

    def start(self):
        """In the event loop's thread."""
        asyncio.get_running_loop().add_reader(self.connection.fileno(), self._read)

    def _read(self):
        while self.connection.poll():
            try:
                outputs = self.connection.recv()
            except EOFError:
                asyncio.get_running_loop().remove_reader(self.connection.fileno())
                return
            self.output_processor.process_outputs(outputs.outputs)

    async def add_request(self, request_id, prompt_token_ids, max_tokens, kv_transfer_params=None):
        queue = asyncio.Queue()
        # as vLLM's InputProcessor.assign_request_id
        engine_id = f"{request_id}-{os.urandom(4).hex()}"
        request = EngineCoreRequest(engine_id, prompt_token_ids, max_tokens, time.time(), kv_transfer_params)
        self.output_processor.add_request(request, queue)
        self.connection.send((EngineCoreRequestType.ADD, request))
        return queue

    async def generate(self, prompt_token_ids, max_tokens, request_id, kv_transfer_params=None):
        queue = await self.add_request(request_id, prompt_token_ids, max_tokens, kv_transfer_params)
        while True:
            output = await queue.get()
            yield output
            if output.finish_reason is not None:
                return

    async def abort(self, request_ids):
        self.output_processor.abort_requests(request_ids)
        self.connection.send((EngineCoreRequestType.ABORT, request_ids))

    def shutdown(self):
        self.connection.send((EngineCoreRequestType.END, None))
        self.process.join(20)
