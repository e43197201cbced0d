# SPDX-License-Identifier: Apache-2.0
"""What a worker answers to a step."""
import dataclasses


@dataclasses.dataclass
class ModelRunnerOutput:
    req_ids: list
    sampled_token_ids: list  # a list per request; empty while its prompt is not done
    finished_recving: list = dataclasses.field(default_factory=list)
