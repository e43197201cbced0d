# SPDX-License-Identifier: Apache-2.0
"""What a step shall do."""
import dataclasses


@dataclasses.dataclass
class NewRequestData:
    req_id: str
    num_prompt_tokens: int
    num_computed_tokens: int
    num_output_tokens: int  # of a request that is computed again


@dataclasses.dataclass
class CachedRequestData:
    req_ids: list
    num_computed_tokens: list
    num_output_tokens: list


@dataclasses.dataclass
class SchedulerOutput:
    scheduled_new_reqs: list
    scheduled_cached_reqs: CachedRequestData
    num_scheduled_tokens: dict
    total_num_scheduled_tokens: int
    scheduled_spec_decode_tokens: dict
    finished_req_ids: set
    kv_connector_metadata: list = dataclasses.field(default_factory=list)  # (request, tokens) to receive
    number: int = 0
    begin_ns: int = 0
