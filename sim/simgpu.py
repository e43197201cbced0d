# SPDX-License-Identifier: Apache-2.0
"""Launches on the simulated GPU node from Python, the way a framework's C++ would.

    import simgpu
    gpu = simgpu.Gpu(local_rank)
    gpu.init_comm(rank, world, exchange)      # exchange(bytes or None) -> bytes, from rank 0 to all
    gpu.kernel("gemm", 250_000)               # nanoseconds
    gpu.allreduce(64 << 20)
    gpu.synchronize()

Libraries are searched in $SIM_LIB, then by the loader's own rules, then in this tree's
build. Faults: Faults.parse("slow:rank=1:start=15s:steps=40:size=1.6") or $SIM_FAULT; the kinds are
slow, kernel, gaps, late, stop and stuck, as in simjob.
"""
import ctypes
import os
import signal
import subprocess
import time

_P = ctypes.c_void_p
_COMPUTE, _COMM = 0, 1


def _library(name):
    here = os.path.dirname(os.path.abspath(__file__))
    places = [os.environ.get("SIM_LIB"), "", os.path.join(here, "../build/lib/sim")]
    error = None
    for place in places:
        if place is None:
            continue
        try:
            return ctypes.CDLL(os.path.join(place, name) if place else name, ctypes.RTLD_GLOBAL)
        except OSError as e:
            error = e
    raise error


class SimError(RuntimeError):
    """A driver or NCCL call failed."""


def _check(rc, what):
    if rc:
        raise SimError(f"{what} failed: {rc}")


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]


class Fault:
    """One fault, as simjob's --fault describes it."""

    kinds = ("slow", "kernel", "gaps", "late", "stop", "stuck")

    def __init__(self, text):
        kind, *rest = text.split(":")
        if kind not in self.kinds:
            raise ValueError(f"unknown fault {text!r}")
        self.kind, self.rank, self.size, self.kernel = kind, 0, 1.5, ""
        self.steps, self.start_step, self.start_s = None, None, None
        for part in rest:
            key, _, value = part.partition("=")
            if key == "rank":
                self.rank = None if value == "all" else int(value)
            elif key == "start" and value.endswith("s"):
                self.start_s = float(value[:-1])
            elif key == "start":
                self.start_step = int(value)
            elif key == "steps":
                self.steps = int(value)
            elif key == "size":
                self.size = float(value)
            elif key == "kernel":
                self.kernel = value
            else:
                raise ValueError(f"unknown part {part!r} of fault {text!r}")
        if self.start_step is None and self.start_s is None:
            self.start_step = 0

    def active(self, rank, step, elapsed_s):
        """Whether it acts on this rank's step; a start by time is fixed by the first step after."""
        if self.rank is not None and rank != self.rank:
            return False
        if self.start_step is None and elapsed_s >= self.start_s:
            self.start_step = step
        if self.start_step is None or step < self.start_step:
            return False
        return self.steps is None or step < self.start_step + self.steps


class Gpu:
    """One simulated device with a compute and a communication stream."""

    def __init__(self, device=0):
        self.cuda = _library("libcuda.so.1")
        try:
            _library("libcupti.so.13")  # frameworks link it
        except OSError:
            pass
        self._look_up()
        dev, ctx, module = ctypes.c_int(), _P(), _P()
        _check(self._init(0), "cuInit")
        _check(self._device_get(ctypes.byref(dev), device), "cuDeviceGet")
        _check(self._retain(ctypes.byref(ctx), dev), "cuDevicePrimaryCtxRetain")
        self.context = ctx
        self.use_context()
        _check(self._module_load(ctypes.byref(module), b"image"), "cuModuleLoadData")
        self.module = module
        self.streams = []
        for _ in range(2):
            s = _P()
            _check(self._stream_create(ctypes.byref(s), 1), "cuStreamCreate")
            self.streams.append(s)
        self.events = []
        for _ in range(16):
            e = _P()
            _check(self._event_create(ctypes.byref(e), 2), "cuEventCreate")
            self.events.append(e)
        self._next_event = 0
        buf = ctypes.c_uint64()
        _check(self._alloc(ctypes.byref(buf), ctypes.c_size_t(1 << 20)), "cuMemAlloc")
        self.buffer = buf
        self.host = ctypes.create_string_buffer(1 << 20)
        self.functions = {}
        self.nccl = self.comm = None
        self.fault = None
        self.nominal_ns = 100_000_000

    def _look_up(self):
        """By cuGetProcAddress, as the runtime does, with the versions that introduced each ABI."""
        get = self.cuda.cuGetProcAddress_v2
        get.argtypes = [ctypes.c_char_p, _P, ctypes.c_int, ctypes.c_uint64, _P]
        u, p = ctypes.c_uint, _P

        def find(name, version, *args):
            fn, status = _P(), ctypes.c_int()
            _check(get(name.encode(), ctypes.byref(fn), version, 0, ctypes.byref(status)), name)
            if not fn.value:
                raise SimError(f"{name} is missing")
            return ctypes.CFUNCTYPE(ctypes.c_int, *args)(fn.value)

        self._init = find("cuInit", 2000, u)
        self._device_get = find("cuDeviceGet", 2000, p, ctypes.c_int)
        self._retain = find("cuDevicePrimaryCtxRetain", 7000, p, ctypes.c_int)
        self._set_current = find("cuCtxSetCurrent", 4000, p)
        self._module_load = find("cuModuleLoadData", 2000, p, ctypes.c_char_p)
        self._get_function = find("cuModuleGetFunction", 2000, p, p, ctypes.c_char_p)
        self._stream_create = find("cuStreamCreate", 2000, p, u)
        self._stream_sync = find("cuStreamSynchronize", 2000, p)
        self._ctx_sync = find("cuCtxSynchronize", 2000)
        self._event_create = find("cuEventCreate", 2000, p, u)
        self._event_record = find("cuEventRecord", 2000, p, p)
        self._wait = find("cuStreamWaitEvent", 3020, p, p, u)
        self._alloc = find("cuMemAlloc", 3020, p, ctypes.c_size_t)
        self._copy_in = find("cuMemcpyHtoDAsync", 3020, ctypes.c_uint64, p, ctypes.c_size_t, p)
        self._copy_out = find("cuMemcpyDtoHAsync", 3020, p, ctypes.c_uint64, ctypes.c_size_t, p)
        self._launch = find("cuLaunchKernel", 4000, p, u, u, u, u, u, u, u, p, p, p)

    def init_comm(self, rank, world, exchange):
        """Joins a communicator, instead of the one it is in; exchange hands rank 0's bytes to everybody."""
        self.rank, self.world = rank, world
        self.nccl = _library("libnccl.so.2")
        uid = UniqueId()
        if rank == 0:
            _check(self.nccl.ncclGetUniqueId(ctypes.byref(uid)), "ncclGetUniqueId")
        raw = exchange(bytes(bytearray(uid)) if rank == 0 else None)
        ctypes.memmove(ctypes.byref(uid), raw, 128)
        self.nccl.ncclCommInitRank.argtypes = [_P, ctypes.c_int, UniqueId, ctypes.c_int]
        self.nccl.ncclAllReduce.argtypes = [_P, _P, ctypes.c_size_t, ctypes.c_int, ctypes.c_int,
                                            _P, _P]
        if self.comm:
            _check(self.nccl.ncclCommAbort(self.comm), "ncclCommAbort")
        comm = _P()
        _check(self.nccl.ncclCommInitRank(ctypes.byref(comm), world, uid, rank),
               "ncclCommInitRank")
        self.comm = comm

    def revoke_comm(self):
        """What waits in the communicator ends. Any thread."""
        _check(self.nccl.ncclCommRevoke(self.comm, 0), "ncclCommRevoke")

    # ---- a step ----

    def use_context(self):
        """Has the calling thread work with this GPU, as the thread that made it does."""
        _check(self._set_current(self.context), "cuCtxSetCurrent")

    def begin_step(self, fault=None):
        """Names the fault that acts on this step, if any."""
        self.fault, self._late = fault, False
        if fault and fault.kind == "stop":
            self._stop((fault.size - 1) * self.nominal_ns / 1e9)

    def add_stream(self):
        """The number of one more stream."""
        s = _P()
        _check(self._stream_create(ctypes.byref(s), 1), "cuStreamCreate")
        self.streams.append(s)
        return len(self.streams) - 1

    def kernel(self, name, ns, grid=(256, 1, 1), block=(128, 1, 1), stream=_COMPUTE):
        """Launches a kernel of ns nanoseconds."""
        f = self.functions.get(name)
        if f is None:
            f = _P()
            _check(self._get_function(ctypes.byref(f), self.module, name.encode()),
                   "cuModuleGetFunction")
            self.functions[name] = f
        if self.fault and (self.fault.kind == "slow" or
                           (self.fault.kind == "kernel" and self.fault.kernel in name)):
            ns *= self.fault.size
        dur = ctypes.c_uint64(int(ns))
        params = (_P * 1)(ctypes.addressof(dur))
        _check(self._launch(f, *grid, *block, 0, self.streams[stream], params, None),
               "cuLaunchKernel")

    def gap(self):
        """A place where the host may be slow (faults `gaps`); call it about ten times a step."""
        if self.fault and self.fault.kind == "gaps":
            self._idle((self.fault.size - 1) / 10)

    def copy_in(self, nbytes):
        nbytes = min(nbytes, 1 << 20)
        _check(self._copy_in(self.buffer, self.host, nbytes, self.streams[_COMPUTE]),
               "cuMemcpyHtoDAsync")

    def copy_out(self, nbytes):
        nbytes = min(nbytes, 1 << 20)
        _check(self._copy_out(self.host, self.buffer, nbytes, self.streams[_COMPUTE]),
               "cuMemcpyDtoHAsync")

    def allreduce(self, nbytes):
        """On the communication stream, after what the compute stream has been given."""
        if not self.comm or self.world < 2:
            return
        if self.fault and self.fault.kind == "stuck":
            signal.pause()
        if self.fault and self.fault.kind == "late" and not self._late:
            self._late = True
            self._idle(self.fault.size - 1)
        self._order(_COMPUTE, _COMM)
        _check(self.nccl.ncclAllReduce(self.buffer.value, self.buffer.value, max(nbytes // 4, 1),
                                       7, 0, self.comm, self.streams[_COMM]), "ncclAllReduce")

    def join(self, stream):
        """The compute stream waits for another one."""
        self._order(stream, _COMPUTE)

    def join_comm(self):
        self.join(_COMM)

    def synchronize(self):
        _check(self._stream_sync(self.streams[_COMPUTE]), "cuStreamSynchronize")

    def _order(self, first, then):
        e = self.events[self._next_event % len(self.events)]
        self._next_event += 1
        _check(self._event_record(e, self.streams[first]), "cuEventRecord")
        _check(self._wait(self.streams[then], e, 0), "cuStreamWaitEvent")

    def _idle(self, share):
        self._ctx_sync()
        time.sleep(share * self.nominal_ns / 1e9)

    @staticmethod
    def _stop(seconds):
        """SIGSTOP for a while; a child sends SIGCONT."""
        subprocess.Popen(["/bin/sh", "-c", f"sleep {seconds:.3f}; kill -CONT {os.getpid()}"],
                         env={"PATH": os.environ.get("PATH", "/bin:/usr/bin")})
        os.kill(os.getpid(), signal.SIGSTOP)


def fault_from_environment():
    text = os.environ.get("SIM_FAULT")
    return Fault(text) if text else None
