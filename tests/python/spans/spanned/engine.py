# SPDX-License-Identifier: Apache-2.0
"""Functions of all kinds, none of which knows that it is watched."""
import functools
import time

calls_of_hostile = []


class Batch:
    def __init__(self, requests, tokens):
        self.requests = requests
        self.tokens = tokens


class Slotted:
    __slots__ = ("requests", "tokens")

    def __init__(self, requests, tokens):
        self.requests = requests
        self.tokens = tokens


class Engine:
    def step(self, batch, repeat=1, seconds=0.0):
        plan = self.schedule(batch)
        if seconds:
            time.sleep(seconds)
        return sum(forward(plan.tokens, context=7, request="request-1-00c0ffee") for _ in range(repeat))

    def schedule(self, batch):
        return Slotted(batch.requests, batch.tokens)

    @staticmethod
    def static(x):
        return x

    @classmethod
    def klass(cls, x):
        return cls, x


class Heir(Engine):
    """The catalogue names a method that it inherits."""


def forward(tokens, context=0, *, request=None):
    return tokens + context


def doubled(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return 2 * function(*args, **kwargs)
    return wrapper


@doubled
def decorated(n):
    return n + 1


@doubled
def not_catalogued(n):
    return n


def recursive(n):
    return 0 if n == 0 else 1 + recursive(n - 1)


def beneath():
    return None


def deep(n):
    if n:
        deep(n - 1)
    if n in (30, 50):
        beneath()


def failing(n):
    if n:
        return failing(n - 1)
    raise LookupError("as it should")


def generator(n):
    for i in range(n):
        yield i


async def coroutine(n, request):
    import asyncio
    for _ in range(n):
        await asyncio.sleep(0)
    return n


def maker():
    def made(x):
        return x
    return made


class Hostile:
    """Each look at it from outside leaves a trace or fails."""
    negative = -1
    huge = 10 ** 400
    name = "\udcff"

    @property
    def tokens(self):
        calls_of_hostile.append("tokens")
        raise RuntimeError("nobody asked")

    def __len__(self):
        calls_of_hostile.append("len")
        return 3


def hostile(thing):
    return thing


class Answer:
    def __init__(self, request_id, token_ids, finish_reason=None):
        self.request_id = request_id
        self.token_ids = token_ids
        self.finish_reason = finish_reason


class OwnDict(dict):
    """Iterating it runs code of the job."""
    def __len__(self):
        calls_of_hostile.append("len")
        return super().__len__()

    def __iter__(self):
        calls_of_hostile.append("iter")
        return super().__iter__()

    def items(self):
        calls_of_hostile.append("items")
        return super().items()


def planned(counts, seen=(), hidden=None):
    return counts


def answered(request_ids):
    return [Answer(r, [1] * i, False if i == 1 else i if i == 2 else None) for i, r in enumerate(request_ids)]


def idle():
    return None


number = 7


class Lazy:
    def __getattr__(self, name):
        calls_of_hostile.append(name)
        raise AttributeError(name)


lazy = Lazy()
