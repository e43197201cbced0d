#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sysom replay ops and timings: what is found is what was put in; layouts, packing, bad input."""
import csv, gzip, io, json, math, os, random, subprocess, sys, tempfile

B = os.environ['B']
sysom = os.path.realpath(f'{B}/bin/sysom')
root = os.path.dirname(os.path.abspath(__file__)) + '/../..'
data = os.environ.get('SYSOM_DATA', root + '/../shared/data') + '/straggler-bytedance/trace-ST.csv.gz'
seed = int(os.environ.get('SEED', '1'))
random.seed(seed)
print(f'# SEED={seed}')
os.chdir(tempfile.mkdtemp())
count = 0


def ok(text, condition, *show):
    global count
    count += 1
    print(('ok' if condition else 'not ok') + f' {count} - {text}')
    for s in show if not condition else ():
        print('# ' + str(s)[:300])


def call(*args, data=''):
    raw = data if isinstance(data, bytes) else data.encode()
    return subprocess.run([sysom, 'replay', *args], input=raw, capture_output=True)


def replay(kind, text, *args):
    p = call(kind, '-', '--json', *args, data=text)
    assert p.returncode == 0, p.stderr
    lines = [json.loads(x) for x in p.stdout.splitlines()]
    assert lines[-1]['type'] == 'summary' and all(x['type'] == 'finding' for x in lines[:-1])
    return lines[:-1], lines[-1]


def table(rows, header=None):
    out = [','.join(header)] if header else []
    return '\n'.join(out + [','.join('' if v is None else f'{v:.7f}' for v in r) for r in rows]) + '\n'


def steps(workers, n, slow=(), first=0, last=-1, factor=1.0, noise=.01):
    return [[.1 * random.gauss(1, noise) * (factor if w in slow and first <= t <= last else 1)
             for w in range(workers)] for t in range(n)]


def same(finding, ranks, first, last, edge=2):
    return (finding['kind'] == 'slow_rank' and sorted(finding['ranks']) == sorted(ranks) and
            abs(finding['first_step'] - first) <= edge and abs(finding['last_step'] - last) <= edge)


# ---- timings ----
rows = steps(8, 200, (5,), 100, 119, 1.2)
found, summary = replay('timings', table(rows))
ok('a slow worker is found with its steps', len(found) == 1 and same(found[0], [5], 100, 119), found)
ok('its excess is reported', abs(found[0]['excess'] - .2) < .02 and
   abs(found[0]['effect_ns'] - 20e6) < 3e6, found)
ok('in ten steps', found[0]['sure_step'] <= 109, found)
ok('a finding has the contract\'s keys', {'type', 'ranks', 'first_step', 'last_step', 'kind', 'layer', 'cause',
   'excess', 'confidence', 'evidence'} <= found[0].keys() and found[0]['evidence'])
ok('the summary counts rows', summary['rows'] == 200 and summary['workers'] == 8 and
   summary['layout'] == 'table')
text = ''.join(f'{w},{t},{v:.7f}\n' for t, r in enumerate(rows) for w, v in enumerate(r))
lines = text.splitlines(True)
listed, summary = replay('timings', text)
ok('a list without a header reads the same', listed == found and summary['layout'] == 'list', listed)
random.shuffle(lines)
shuffled, _ = replay('timings', 'seconds,step,worker\n' +
                     ''.join(','.join(reversed(x.strip().split(','))) + '\n' for x in lines))
ok('so does one with a header, in any order of rows and columns', shuffled == found, shuffled)
numbered, _ = replay('timings', table([[t] + r for t, r in enumerate(rows)],
                                      ['step'] + [f'worker{w}' for w in range(8)]))
ok('so does a table with a header and a column of steps', numbered == found, numbered)
counted, _ = replay('timings', '\n'.join(f'{t},' + ','.join(f'{v:.7f}' for v in r)
                                         for t, r in enumerate(rows)))
ok('and one that only counts its rows', counted == found, counted)
named, _ = replay('timings', table([r[::-1] for r in rows], [f'rank {w}' for w in range(7, -1, -1)]))
ok('names of columns are the ranks', [f['ranks'] for f in named] == [[5]], named)
packed = call('timings', '-', '--json', data=gzip.compress(table(rows).encode()))
ok('gzip reads the same', packed.stdout == call('timings', '-', '--json', data=table(rows)).stdout)
holes = [[None if random.random() < .1 else v for v in r] for r in rows]
found, summary = replay('timings', table(holes))
ok('missing cells are borne and counted', len(found) == 1 and same(found[0], [5], 100, 119) and
   summary['skipped']['missing'] == sum(v is None for r in holes for v in r), found, summary)
found, _ = replay('timings', table(steps(8, 120, (1, 6), 0, 119, 1.15)))
ok('two of eight, from the first step on', len(found) == 1 and same(found[0], [1, 6], 0, 119), found)
found, _ = replay('timings', table(steps(8, 120, (0, 1, 3, 4, 6), 40, 99, 1.15)))
ok('five of eight', len(found) == 1 and same(found[0], [0, 1, 3, 4, 6], 40, 99), found)
found, _ = replay('timings', table(steps(8, 200, (0, 1, 2, 3, 4, 6, 7), 60, 99, 1.15)))
ok('seven of eight: the eighth is not accused with them',
   len(found) == 1 and same(found[0], [0, 1, 2, 3, 4, 6, 7], 60, 99), found)
found, _ = replay('timings', table(steps(8, 600, (0, 1, 3, 4, 6), 40, 99, 1.15)), '--mode', 'sysom')
ok('which the paper\'s mode doesn\'t', not any({0, 1, 3, 4, 6} <= set(f['ranks']) for f in found
                                                if f['kind'] == 'slow_rank'), found)
found, _ = replay('timings', table(steps(8, 400, (3,), 100, 399, 1.3)), '--mode', 'sysom', '--window', '50')
ok('it finds one of eight', any(f['ranks'] == [3] for f in found), found)
for workers in (1, 2, 4, 16):
    found, _ = replay('timings', table(steps(workers, 400, noise=.03)))
    ok(f'{workers} healthy: nothing', found == [], found)
common = [.1 * random.gauss(1, .02) * (1.25 if 200 <= t < 300 else 1) for t in range(500)]
found, _ = replay('timings', table([[c * random.gauss(1, 1e-4) for _ in range(8)] for c in common]))
ok('workers that wait for each other: the job became slower, no one\'s fault', len(found) == 1 and
   found[0]['kind'] == 'uniform' and abs(found[0]['first_step'] - 200) <= 1 and
   abs(found[0]['last_step'] - 299) <= 1, found)
found, _ = replay('timings', table([[.1 * random.uniform(.6, 1.4) for _ in range(8)] for _ in range(300)]))
ok('uneven input that moves: imbalance', [f['cause'] for f in found] == ['imbalance-input'], found)
load, rows = [0.] * 8, []
for t in range(800):
    load = [.95 * x + .1 * random.gauss(0, 1) for x in load]
    rows.append([.05 + .05 * math.exp(x) for x in load])
found, _ = replay('timings', table(rows))
ok('so are experts that stay popular for a while', {f['kind'] for f in found} <= {'imbalance'}, found)
for bad, line in (('0.1,0.2\n0.1,x\n', 2), ('0.1,0.2\n0.1\n', 2), ('worker,step,seconds\n0,zero,1\n', 2),
                  ('worker,step,seconds\n0,0,1\n0,1,1e99\n', 3), ('r0,r1\n"\n', 2),
                  ('0.1,x,0.2\n0.1,0.1,0.2\n', 1)):
    p = call('timings', '-', data=bad)
    ok(f'bad: {bad!r} names line {line}', p.returncode == 2 and f'-:{line}:'.encode() in p.stderr, p)
# what is a time, whose, and in what unit
for head, why in (('step,gpu_util', 'gpu_util'), ('step,worker,gpu_util', 'gpu_util'), ('step,rank0,rank1,loss', 'loss'),
                  ('worker,step,value', 'value'), ('step,worker0,worker1,gpu_util0', 'gpu_util0'),
                  ('worker,step,tokens_per_s', 'tokens_per_s'), ('step,compute_ms,comm_ms', 'compute_ms'),
                  ('worker,step,a_ms,b_ms', 'b_ms'), ('step,rank0_ms,rank1_s', 'rank1_s')):
    p = call('timings', '-', data=head + '\n' + '1,0,' + ','.join(['.5'] * (head.count(',') - 1)) + '\n')
    ok(f'{head}: refuses {why} and says what to do', p.returncode == 2 and p.stderr.startswith(b'-:1: ') and
       p.stderr.rstrip().endswith(b': ' + why.encode()) and b'--' in p.stderr and not p.stdout, p)
values = [(w, t, .1 * (1 + w) * random.gauss(1, .01)) for t in range(6) for w in range(3)]


def listed_as(head, *args, scale=1.0, rows=tuple(values)):
    return call('timings', '-', '--json', *args, data=head + '\n' + ''.join(f'{w},{t},{v * scale}\n' for w, t, v in rows))


want = listed_as('worker,step,seconds')
last = json.loads(want.stdout.splitlines()[-1])
ok('the summary says what was read in what unit', want.returncode == 0 and last['unit'] == 's' and
   last['unit_from'] == 'name' and last['columns'] == {'times': ['seconds'], 'step': 'step', 'worker': 'worker'}, want)
for head, args, scale in (('worker,step,dur_ms', (), 1e3), ('worker,step,dur (us)', (), 1e6),
                          ('worker,step,x', ('--time', 'x', '--unit', 'ns'), 1e9),
                          ('worker,step,duration', ('--unit', 'ms'), 1e3)):
    p = listed_as(head, *args, scale=scale)
    ok(f'{head} {args}: the same times', p.returncode == 0 and
       {k: v for k, v in json.loads(p.stdout.splitlines()[-1]).items() if k not in ('columns', 'unit', 'unit_from')} ==
       {k: v for k, v in last.items() if k not in ('columns', 'unit', 'unit_from')}, p)
p = call('timings', '-', '--unit', 'ms', data='step,rank0,rank1\n0,5,6\n1,5,6\n')
ok('for people, too', b'2 columns of times in ms (from --unit): rank0 rank1' in p.stdout, p)
p = listed_as('worker,step,dur_ms', '--unit', 's')
ok('a unit that the name denies is refused', p.returncode == 2 and b'dur_ms' in p.stderr, p)
p = listed_as('worker,step,duration')
ok('shares under a name without a unit are refused', p.returncode == 2 and b'column duration' in p.stderr and
   b'--unit s' in p.stderr and not p.stdout, p)
ok('unless somebody says that they are seconds', listed_as('worker,step,duration', '--unit', 's').returncode == 0)
shares = [[v / 2 for v in (.3, .9, 2)], [.2, .4, .6]]
p = call('timings', '-', data=table(shares))
ok('a table that was normalised is refused', p.returncode == 2 and b'--unit s' in p.stderr, p)
p = call('timings', '-', '--json', data=table([[v / 2 for v in r] for r in shares]))
ok('what may be either is said', p.returncode == 0 and b'taken as seconds' in p.stderr and
   json.loads(p.stdout)['unit_from'] == 'assumed' and json.loads(p.stdout)['columns'] == {'times': [1, 2, 3]}, p)
p = call('timings', '-', '--time', 'b,c', data='a,b\n1,2\n')
ok('--time that is no column is named', p.returncode == 2 and b'--time' in p.stderr and b': c' in p.stderr, p)
ok('and is of timings alone', call('ops', '-', '--time', 'b').returncode == 2)
p = call('timings', '-', '--json', data='0,0,0\n0,1,.1\n1,0,.12\n1,1,0\n')
ok('zeros of a list without a header are counted', p.returncode == 0 and
   json.loads(p.stdout.splitlines()[-1])['skipped']['not_positive'] == 2, p)
ok('no file: 2', call('timings', '/nonexistent').returncode == 2)
ok('unknown option: 2', call('timings', '-', '--mode', 'x').returncode == 2)
ok('empty: 2', call('timings', '-').returncode == 2)
p = call('timings', '-', data=table(steps(8, 200, (5,), 100, 119, 1.2)))
ok('text for people', p.returncode == 0 and p.stdout.startswith(b'rank 5: slow, steps 100 to 119'), p.stdout)


# ---- ops ----
def job(dp, stages, n, slow=(), first=0, last=-1, factor=1.0, gap=0.0, skew=0.0):
    """Stage s has 1 + s / 4 times the work; rank = stage * dp + replica."""
    out = ['dp_rank,stage,rank,step,optype,start_ts,duration,seq_id,mc,mb_id,gmc']
    for t in range(n):
        for d in range(dp):
            heavy = random.gauss(1, skew)
            for s in range(stages):
                rank, at = s * dp + d, 0.0
                bad = rank in slow and first <= t <= last
                for k in range(8):
                    kind = 'forward-compute' if k < 4 else 'backward-compute'
                    took = (.03 if k < 4 else .06) * (1 + s / 4) * heavy * random.gauss(1, .02)
                    took *= factor if bad else 1
                    at += gap if bad else 0
                    out.append(f'{d},{s},{rank},{t},{kind},{at:.9f},{took:.9f},0,0,{k},0')
                    at += took
                # healthy peers wait: the culprit's collective is the shortest
                out.append(f'{d},{s},{rank},{t},grads-reduce-scatter,{at:.9f},{max(1.5 - at, .01):.9f},0,0,-1,-1')
    return '\n'.join(out) + '\n'


def pipeline(dp, stages, n, slow=None, first=0, last=-1, factor=1.0, keep=1.0):
    """A pipeline of four micro-batches, forward and back: nobody records that it waits for the stage before
    or after it. keep: share of the rows that are not lost."""
    out = []
    for t in range(n):
        took = [[(.02 if back == 0 else .04) * random.gauss(1, .02) *
                 (factor if r == slow and first <= t <= last else 1)
                 for back in (0, 1) for _ in range(4)] for r in range(dp * stages)]
        ends = []
        for d in range(dp):
            free = [0.0] * stages
            for back in (0, 1):
                for m in range(4):
                    ready = 0.0
                    for s in (range(stages) if back == 0 else range(stages - 1, -1, -1)):
                        r = s * dp + d
                        at = max(free[s], ready)
                        dur = took[r][4 * back + m]
                        kind = 'backward-compute' if back else 'forward-compute'
                        out.append(f'{d},{s},{r},{t},{kind},{at:.9f},{dur:.9f}')
                        free[s] = ready = at + dur
            ends.append(free)
        for s in range(stages):
            end = max(ends[d][s] for d in range(dp)) + .01
            for d in range(dp):
                out.append(f'{d},{s},{s * dp + d},{t},grads-reduce-scatter,{ends[d][s]:.9f},{end - ends[d][s]:.9f}')
    return '\n'.join(['dp_rank,stage,rank,step,optype,start_ts,duration'] +
                     [r for r in out if random.random() < keep]) + '\n'


def slow(found):
    return [f for f in found if f['kind'] == 'slow_rank']


for dp, stages in ((2, 4), (2, 2), (4, 2), (8, 1), (1, 4), (2, 1)):
    who = random.randrange(dp * stages)
    found, summary = replay('ops', job(dp, stages, 100, (who,), 50, 64, 1.1))
    ok(f'{dp} x {stages}: the slow rank', len(slow(found)) == 1 and same(slow(found)[0], [who], 50, 64), found)
    found, _ = replay('ops', job(dp, stages, 100, skew=.03))
    ok(f'{dp} x {stages}: healthy', slow(found) == [], found)
found, _ = replay('ops', job(2, 4, 100, (3,), 50, 64, 1.2))
ok('all its compute: the GPU', slow(found)[0]['layer'] == 'gpu' and slow(found)[0]['cause'] == 'gpu-slow')
ok('a heavier stage is imbalance', any(f['cause'] == 'imbalance-stage' and f['ranks'] == [6, 7]
                                       for f in found), found)
found, _ = replay('ops', job(4, 2, 200, (5,), 100, 139, gap=.005))
ok('gaps before its compute: the host', len(slow(found)) == 1 and same(slow(found)[0], [5], 100, 139) and
   slow(found)[0]['cause'] == 'cpu-host-gap', found)
found, _ = replay('ops', job(4, 2, 120, (6,), 60, 84, 1.5, skew=.2))
ok('a slow rank stands out of uneven input that its replica\'s stages share', len(slow(found)) == 1 and
   same(slow(found)[0], [6], 60, 84) and any(f['cause'] == 'imbalance-input' for f in found), found)
for dp, stages, who in ((2, 4, 5), (4, 2, 1), (2, 4, 0), (4, 2, 6)):
    found, _ = replay('ops', pipeline(dp, stages, 120, who, 60, 89, 1.5))
    ok(f'{dp} x {stages}: who waits for the slow rank, unrecorded, is not late', len(slow(found)) == 1 and
       same(slow(found)[0], [who], 60, 89), found)
    found, _ = replay('ops', pipeline(dp, stages, 120))
    ok(f'{dp} x {stages}: nor is anybody in a healthy pipeline', slow(found) == [], found)
    found, _ = replay('ops', pipeline(dp, stages, 120, who, 60, 89, 1.3, keep=.999))
    ok(f'{dp} x {stages}: 0.1% of the rows are lost: the slow rank alone', len(slow(found)) == 1 and
       same(slow(found)[0], [who], 60, 89), found)
    lost = job(dp, stages, 120, (who,), 60, 89, 1.3).splitlines(True)
    found, _ = replay('ops', lost[0] + ''.join(x for x in lost[1:] if random.random() < .999))
    ok(f'{dp} x {stages}: the same where nobody waits for another stage', len(slow(found)) == 1 and
       same(slow(found)[0], [who], 60, 89), found)
if os.path.exists(data):
    p = call('ops', data, '--json')
    found = [json.loads(x) for x in p.stdout.splitlines()]
    ok('the real job: stage 3 is heavier, no rank is slow', p.returncode == 0 and
       [(f['cause'], f['ranks']) for f in found[:-1]] == [('imbalance-stage', [6, 7])], found)
    with gzip.open(data, 'rt') as f:
        real = list(csv.DictReader(f))
    numbers = sorted({int(r['step']) for r in real})
    for factor, who in ((1.05, 2), (1.3, 7)):
        name = list(range(8))
        random.shuffle(name)
        out = io.StringIO()
        w = csv.DictWriter(out, real[0].keys())
        w.writeheader()
        for r in random.sample(real, len(real)):
            bad = int(r['rank']) == who and numbers[12] <= int(r['step']) <= numbers[21]
            bad = bad and r['optype'].endswith('compute')
            w.writerow(r | {'rank': name[int(r['rank'])],
                            'duration': float(r['duration']) * (factor if bad else 1)})
        found, _ = replay('ops', out.getvalue())
        ok(f'the real job with rank {who} slower by x{factor} for 10 steps, ranks permuted',
           [(f['ranks'], f['first_step'], f['last_step']) for f in slow(found)] ==
           [([name[who]], numbers[12], numbers[21])], found)
head = 'dp_rank,stage,rank,step,optype,start_ts,duration\n'
for bad, line in ((head + '0,0,0,0,forward-compute,0\n', 2), (head + '0,0,-1,0,x,0,1\n', 2),
                  (head + '0,0,0,0,x,0,1\n0,0,0,0,x,0,nan\n', 3), ('a,b\n1,2\n', 1),
                  ('0,0,0,0,forward-compute,0,1\n', 1)):
    p = call('ops', '-', data=bad)
    ok(f'bad ops name line {line}', p.returncode == 2 and f'-:{line}:'.encode() in p.stderr, p)
ok('a header alone is an empty job', replay('ops', head)[0] == [])
print(f'1..{count}')
