#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Slow workers injected into a real job's operations, through `sysom replay ops`: recall, right rank,
false flags and steps to detect. argv: the build directory. SYSOM_DATA, SEED, TRIALS (per arm)."""
import collections, csv, gzip, io, json, os, random, statistics, subprocess, sys

build = sys.argv[1] if len(sys.argv) > 1 else 'build/gcc'
data = os.environ.get('SYSOM_DATA', '../shared/data')
seed = int(os.environ.get('SEED', '1'))
trials = int(os.environ.get('TRIALS', '20'))
random.seed(seed)
with gzip.open(f'{data}/straggler-bytedance/trace-ST.csv.gz', 'rt') as f:
    rows = list(csv.DictReader(f))
columns = list(rows[0])
real = [(int(r['dp_rank']), int(r['stage']), int(r['rank']), int(r['step']), r['optype'],
         float(r['start_ts']), float(r['duration']), r['seq_id'], r['mc'], r['mb_id'], r['gmc'])
        for r in rows]
real_steps = sorted({r[3] for r in real})
by_step = collections.defaultdict(list)
for r in real:
    by_step[r[3]].append(r)


def longer(steps, scale):
    """A job of so many steps: each a real one drawn anew; scale: what its compute differs from the
    operation's median over steps, times this."""
    typical = collections.defaultdict(list)
    for r in real:
        if r[4].endswith('compute'):
            typical[r[:3] + (r[4], r[7], r[8], r[9])].append(r[6])
    typical = {k: statistics.median(v) for k, v in typical.items()}
    for s in range(steps):
        for r in by_step[random.choice(real_steps[5:])]:
            d = r[6]
            if r[4].endswith('compute'):
                m = typical[r[:3] + (r[4], r[7], r[8], r[9])]
                d = max(m / 4, m + scale * (d - m))
            yield r[:3] + (s,) + r[4:6] + (d,) + r[7:]


def inject(ops, ranks, factor, first, last, shift):
    """Compute of these ranks takes factor times as long; shift: what follows in the step is later."""
    later = collections.defaultdict(float)
    for r in sorted(ops, key=lambda r: (r[3], r[2], r[5])):
        d, start = r[6], r[5]
        if r[2] in ranks and first <= r[3] <= last:
            start += later[r[2], r[3]] if shift else 0
            if r[4].endswith('compute'):
                later[r[2], r[3]] += d * (factor - 1)
                d *= factor
        yield r[:5] + (start, d) + r[7:]


def replay(ops, permute):
    ops = list(ops)
    name = list(range(8))
    if permute:
        random.shuffle(name)
        random.shuffle(ops)
    out = io.StringIO()
    w = csv.writer(out)
    w.writerow(columns)
    w.writerows(r[:2] + (name[r[2]],) + r[3:] for r in ops)
    p = subprocess.run([f'{build}/bin/sysom', 'replay', 'ops', '-', '--json'], text=True,
                       input=out.getvalue(), capture_output=True)
    assert p.returncode == 0, p.stderr
    found = [json.loads(x) for x in p.stdout.splitlines()]
    found = [x for x in found if x['type'] == 'finding' and x['kind'] == 'slow_rank']
    back = {n: i for i, n in enumerate(name)}
    for x in found:
        x['ranks'] = [back[r] for r in x['ranks']]
    return found


def arm(title, ops_of, steps, factor, k, count, shift):
    full = wrong = ten = 0
    delays, edges = [], []
    for _ in range(trials):
        ranks = set(random.sample(range(8), count))
        index = 0 if k >= len(steps) else random.randrange(4, len(steps) - k + 1)
        first, last = steps[index], steps[min(index + k, len(steps)) - 1]
        found = replay(inject(list(ops_of()), ranks, factor, first, last, shift), True)
        hit, delay = set(), None
        for x in found:
            if set(x['ranks']) <= ranks and x['first_step'] <= last and x['last_step'] >= first:
                hit |= set(x['ranks'])
                delay = max(delay or 0, steps.index(x['sure_step']) - index + 1)
                edges.append(abs(steps.index(x['first_step']) - index) +
                             abs(steps.index(x['last_step']) - steps.index(last)))
            else:
                wrong += 1
                if os.environ.get('SHOW'):
                    print('wrong:', ranks, first, last, x)
        full += hit == ranks
        ten += hit == ranks and delay <= 10
        if delay:
            delays.append(delay)
    median = statistics.median(delays) if delays else float('nan')
    edge = statistics.mean(edges) if edges else float('nan')
    print(f'{title:<34} x{factor:<4} {k:>3} steps {count} slow | recall {100 * full / trials:5.1f}%  '
          f'in 10 {100 * ten / trials:5.1f}%  wrong {wrong:2d}  steps {median:4.0f}  edges {edge:4.1f}',
          flush=True)


print(f'seed {seed}, {trials} trials an arm; edges: steps by which begin and end together are off')
visible = lambda: real
for shift in (True,):
    for factor in (1.05, 1.1, 1.2, 1.5, 2):
        arm('the real job' + (', starts shifted' if shift else ''), visible, real_steps, factor, 10, 1,
            shift)
for factor in (1.05, 1.1, 1.5):
    arm('the real job', visible, real_steps, factor, 32, 1, True)
    arm('the real job', visible, real_steps, factor, 15, 2, True)
for scale in (1, 3):
    for factor in (1.05, 1.1, 2):
        arm(f'100 steps, residuals x{scale}', lambda: longer(100, scale), list(range(100)), factor, 20, 1,
            True)
for scale in (1, 3):
    bad = 0
    for _ in range(trials):
        bad += bool(replay(longer(300, scale), True))
    print(f'healthy, 300 steps, residuals x{scale}: {bad} of {trials} runs with a flag '
          f'({trials * 300 * 8 * 2.2 / 3600:.1f} rank-hours)')
