# SPDX-License-Identifier: Apache-2.0
"""A real packet flood whose NET_RX soft interrupts run on the CPU of one thread of one rank."""
import scenario


def packets():
    """That the CPU has handled, by the kernel's own count."""
    with open("/proc/net/softnet_stat", encoding="ascii") as f:
        for line in f:
            words = line.split()
            if len(words) < 13 or int(words[12], 16) == scenario.VICTIM_CPU:
                count = int(words[0], 16)
    return count


TRIES = 3  # how much of the thread's time the packets take is chance


def run(name, title, thread, *job):
    with scenario.Scenario(name, title, 420) as s:
        s.start_stack(cpus={scenario.OTHER_CPU})
        for rank in (1, 2) if s.full else (1,):
            for left in reversed(range(TRIES)):
                # a job for each: to have its thread moved to a shared CPU is a fault of the rank before
                s.begin(s.simjob("--mix", "shard", "--host-work", "pack:ms=16", *job),
                        pin=(rank, thread), name=f"{name}_{rank}_{left}")
                f = s.fault(f"NET_RX on the CPU of its {title}", rank,
                            [f"{scenario.FAULTS}/packet_storm.py", "--cpu", scenario.VICTIM_CPU,
                             "--seconds", 300, "--share", 60, "--sender-cpu", scenario.OTHER_CPU],
                            scenario.Want("os-softirq", "os", named=["NET_RX", "srx[0-9]+"],
                                          remedy="smp_affinity|rps_cpus|move"),
                            observe=(packets, "packets/s on that CPU", 300), again=left > 0)
                s.end_job()
                if f.real:
                    break
