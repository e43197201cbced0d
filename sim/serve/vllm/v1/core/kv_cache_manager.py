# SPDX-License-Identifier: Apache-2.0
"""Blocks of the key-value cache: only their number matters here."""


class KVCacheManager:
    def __init__(self, block_size, num_gpu_blocks):
        self.block_size = block_size
        self.free_blocks = num_gpu_blocks

    def allocate_slots(self, request, num_new_tokens):
        """False: there is no room."""
        need = -(-(request.num_computed_tokens + num_new_tokens) // self.block_size) - request.blocks
        if need > self.free_blocks:
            return False
        if need > 0:
            self.free_blocks -= need
            request.blocks += need
        return True

    def free(self, request):
        self.free_blocks += request.blocks
        request.blocks = 0
