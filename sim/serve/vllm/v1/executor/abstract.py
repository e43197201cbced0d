# SPDX-License-Identifier: Apache-2.0
class Executor:
    def execute_model(self, scheduler_output, non_block=False):
        raise NotImplementedError
