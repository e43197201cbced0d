# SPDX-License-Identifier: Apache-2.0
"""What the API process and the engine's process send each other."""
import dataclasses
import enum


class FinishReason(enum.IntEnum):
    STOP = 0
    LENGTH = 1
    ABORT = 2


class EngineCoreRequestType(enum.Enum):
    ADD = b"\x00"
    ABORT = b"\x01"
    END = b"\x02"


@dataclasses.dataclass
class EngineCoreRequest:
    request_id: str
    prompt_token_ids: list
    max_tokens: int
    arrival_time: float
    kv_transfer_params: dict | None = None


@dataclasses.dataclass
class EngineCoreOutput:
    request_id: str
    new_token_ids: list
    finish_reason: FinishReason | None = None
    kv_transfer_params: dict | None = None
    handed_ns: int = 0  # for the truth file: when the API process knew the request, and got this
    delivered_ns: int = 0


@dataclasses.dataclass
class EngineCoreOutputs:
    outputs: list
    timestamp: float = 0.0
