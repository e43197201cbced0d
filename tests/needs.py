#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What tests need beyond the repository and a C compiler, and whether it is here: the one place that says so.

    needs.py            a line for each
    needs.py NAME...    exit 0 when all are here; else the first that is not, and exit 1

None of them asks sysom: what sysom can't do here for a fault of its own is no reason to skip.
"""
import ctypes
import functools
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests/faults"))
import fault_group  # noqa: E402

LIBC = ctypes.CDLL(None, use_errno=True)
SYS_BPF, SYS_PERF_EVENT_OPEN = 321, 298  # x86-64
CLONE_NEWNS = 0x20000


def in_child(function):
    """What a function that changes its process says of a process of its own."""
    pid = os.fork()
    if not pid:
        try:
            os._exit(0 if function() else 1)
        except Exception:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def data():
    return os.path.isdir(os.environ.get("SYSOM_DATA", os.path.join(ROOT, "../shared/data")))


def root():
    return os.geteuid() == 0


def cpus():
    return len(os.sched_getaffinity(0)) >= 2


def bpf():
    """BTF of the kernel, and a raw tracepoint's program of two instructions that loads and is attached."""
    if platform.machine() != "x86_64" or not os.path.exists("/sys/kernel/btf/vmlinux"):
        return False
    code = (ctypes.c_uint64 * 2)(0x00000000000000b7, 0x95)  # r0 = 0; exit
    license_of = ctypes.create_string_buffer(b"Apache-2.0")
    attr = (ctypes.c_uint64 * 16)()
    attr[0] = 17 | 2 << 32  # BPF_PROG_TYPE_RAW_TRACEPOINT, two instructions
    attr[1], attr[2] = ctypes.addressof(code), ctypes.addressof(license_of)
    program = LIBC.syscall(SYS_BPF, 5, attr, 48)
    if program < 0:
        return False
    name = ctypes.create_string_buffer(b"sched_switch")
    link = (ctypes.c_uint64 * 2)(ctypes.addressof(name), program)
    attached = LIBC.syscall(SYS_BPF, 17, link, 16)
    for fd in (program, attached):
        if fd >= 0:
            os.close(fd)
    return attached >= 0 and perf_clock(-1, 0, 0)


def perf_clock(pid, cpu, flags):
    attr = (ctypes.c_uint64 * 16)()
    attr[0], attr[5] = 1 | 128 << 32, flags  # PERF_TYPE_SOFTWARE, this structure's size
    fd = LIBC.syscall(SYS_PERF_EVENT_OPEN, attr, pid, cpu, -1, 8)
    if fd >= 0:
        os.close(fd)
    return fd >= 0


def mounts():
    """A file system of one's own."""
    def mount():
        with tempfile.TemporaryDirectory() as d:
            done = not LIBC.unshare(CLONE_NEWNS) and not LIBC.mount(b"none", b"/", None, 0x44000, None) and \
                not LIBC.mount(b"none", d.encode(), b"tmpfs", 0, b"size=1m")
            if done:
                LIBC.umount(d.encode())
            return done
    return in_child(mount)


def netns():
    """A named network namespace with a pair of devices, and a program inside it. (In a chroot whose root is no
    mount point `ip netns exec` can't.)"""
    name = f"sysom-probe-{os.getpid()}"

    def ip(*words):
        return not subprocess.run(["ip", *words], check=False, stderr=subprocess.DEVNULL).returncode
    if not shutil.which("ip") or not root() or not ip("netns", "add", name):
        return False
    try:
        return ip("-n", name, "link", "add", "v0", "type", "veth", "peer", "name", "v1") and \
            ip("netns", "exec", name, "true")
    finally:
        ip("netns", "del", name)


def realtime():
    return in_child(lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)) is None)


def made_group(controller, *files):
    """A cgroup of version 1 or 2 with these files can be made."""
    for above in (f"/sys/fs/cgroup/{controller}", "/sys/fs/cgroup", "/sys/fs/cgroup/unified"):
        path = f"{above}/sysom-probe-{os.getpid()}"
        try:
            os.mkdir(path)
        except OSError:
            continue
        good = all(os.path.exists(f"{path}/{f}") for f in files)
        os.rmdir(path)
        if good:
            return True
    return False


def memory_group():
    return (made_group("memory", "memory.limit_in_bytes") or made_group("memory", "memory.high")) and \
        made_group("memory", "memory.pressure")


def limit(controller, setting, *values):
    """A cgroup that takes this setting can be made."""
    group = None
    try:
        group = fault_group.Group(controller, [])
        group.put(setting, *values)
        return True
    except (OSError, SystemExit):
        return False
    finally:
        if group:
            os.rmdir(group.path)


def disk_limit():
    """On the disk on which tests keep their files."""
    disk = os.stat(tempfile.gettempdir()).st_dev
    return limit("blkio", "read_bps", f"{os.major(disk)}:{os.minor(disk)}", 1000000)


def direct_io():
    try:
        with tempfile.NamedTemporaryFile() as f:
            f.truncate(4096)
            os.close(os.open(f.name, os.O_RDONLY | os.O_DIRECT))
            return True
    except OSError:
        return False


def cuda_headers():
    return os.path.exists(os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "include/cupti.h"))


def own_perf():
    """A clock of an ordinary user's own program, kernel left out."""
    def clock():
        if root():
            os.setuid(65534)
        return perf_clock(0, -1, 0x20)  # exclude_kernel
    return in_child(clock)


def mirror():
    """A mirror that apt reaches."""
    with tempfile.TemporaryDirectory() as d:
        os.chmod(d, 0o755)
        return shutil.which("apt-get") and not subprocess.run(
            ["apt-get", "-q", "download", "hostname"], cwd=d, check=False, capture_output=True, timeout=60).returncode


def python_module(name):
    name, _, python = name.partition("@")
    return not subprocess.run([python or "/usr/bin/python3", "-c", f"import {name}"], check=False,
                              capture_output=True).returncode


NEEDS = {
    "data": (data, "recorded traces: no SYSOM_DATA and no ../shared/data"),
    "root": (root, "root"),
    "cpus": (cpus, "two CPUs"),
    "bpf": (bpf, "BPF for the whole machine: CAP_BPF, CAP_PERFMON, the kernel's BTF in /sys"),
    "mounts": (mounts, "mounting a file system"),
    "fuse": (lambda: root() and mounts() and os.path.exists("/dev/fuse"), "mounting a FUSE file system"),
    "netns": (netns, "making a network namespace and a device (iproute2)"),
    "realtime": (realtime, "real-time priority"),
    "cgroup2": (lambda: mounts() and made_group("unified", "cgroup.procs"), "making a cgroup of version 2"),
    "memory-group": (memory_group, "a memory cgroup with a limit and pressure"),
    "cpu-group": (lambda: limit("cpu", "cpu_quota_us", 50000), "a CPU cgroup with a quota"),
    "blkio-group": (disk_limit, "a cgroup that throttles reads of the disk below /tmp"),
    "direct-io": (direct_io, "a temporary directory with O_DIRECT"),
    "cuda": (cuda_headers, "a CUDA toolkit"),
    "own-perf": (own_perf, "perf events of an ordinary user's own processes (perf_event_paranoid below 3)"),
    "open-files": (lambda: resource.getrlimit(resource.RLIMIT_NOFILE)[1] >= 5000, "5,000 open files in a process"),
    "seccomp": (lambda: os.path.exists("/proc/sys/kernel/seccomp"), "seccomp"),
    "vdso": (lambda: b"[vdso]" in open("/proc/self/maps", "rb").read(), "a vDSO"),
    "mirror": (mirror, "a Debian mirror that apt-get reaches"),
    "bpf-stats": (lambda: os.path.exists("/proc/sys/kernel/bpf_stats_enabled"), "the kernel's BPF statistics (5.8)"),
}


@functools.lru_cache(None)
def here(name):
    """Whether it is here. Beside the table: `command:NAME` in PATH, `module:NAME` of Debian's Python
    (`module:NAME@PYTHON` of another), `file:PATH`. None: no such need."""
    kind, _, what = name.partition(":")
    if kind == "command" and what:
        return bool(shutil.which(what))
    if kind == "module" and what:
        return python_module(what)
    if kind == "file" and what:
        return os.path.exists(what)
    return bool(NEEDS[name][0]()) if name in NEEDS else None


def what(name):
    return NEEDS[name][1] if name in NEEDS else name.replace(":", " ")


def main():
    names = sys.argv[1:]
    if not names:
        for name in NEEDS:
            print(f"{'here' if here(name) else '-':5} {name:13} {what(name)}")
        return 0
    for name in names:
        if here(name) is None:
            sys.exit(f"needs: no such need: {name}")
        if not here(name):
            print(what(name))
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
