#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Is a confidence of 80% right in 80 of 100 cases? Lines on standard input: CONFIDENCE RIGHT (1 or 0) TRUTH
SAID and more, which is not read. Printed: by bins of confidence how many were right, with the 95% interval
of that share (Wilson), the Brier score (mean square of confidence - right, 0.25 for who always says 50%)
beside that of who always says the base rate, and the ECE (mean distance of confidence and share over the
bins). usage: reliability.py [--most ECE] < LINES; exits 1 when the ECE is larger."""
import argparse
import math
import sys

BINS = 10


def wilson(right, n, z=1.96):
    p = right / n
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return max(middle - half, 0.0), min(middle + half, 1.0)


def brier(pairs):
    return sum((c - r) ** 2 for c, r in pairs) / len(pairs)


def bins_of(pairs):
    """Lists of pairs, by confidence."""
    out = [[] for _ in range(BINS)]
    for c, r in pairs:
        out[min(int(c * BINS), BINS - 1)].append((c, r))
    return out


def ece(pairs):
    return sum(abs(sum(c - r for c, r in b)) for b in bins_of(pairs)) / len(pairs)


def table(pairs, title):
    """Prints it; the ECE, or None where there is nothing."""
    print(title)
    if not pairs:
        print("  no case")
        return None
    print(f"  {'confidence':<14}{'cases':>7}{'said':>8}{'right':>8}   95% of right")
    for k, b in enumerate(bins_of(pairs)):
        if not b:
            continue
        right = sum(r for _, r in b)
        low, high = wilson(right, len(b))
        print(f"  {k / BINS:.1f} to {(k + 1) / BINS:.1f}{'':<4}{len(b):7d}"
              f"{100 * sum(c for c, _ in b) / len(b):7.1f}%{100 * right / len(b):7.1f}%"
              f"   {100 * low:.0f} to {100 * high:.0f}%")
    base = sum(r for _, r in pairs) / len(pairs)
    print(f"  {len(pairs)} cases, {100 * base:.1f}% right; Brier score {brier(pairs):.3f} "
          f"(base rate alone {base * (1 - base):.3f}), ECE {ece(pairs):.3f}")
    return ece(pairs)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--most", type=float, default=1.0)
    p.add_argument("--title", default="how often a confidence is right")
    args = p.parse_args()
    pairs = [(float(x[0]), int(x[1])) for x in map(str.split, sys.stdin) if len(x) >= 2]
    found = table(pairs, args.title)
    if found is None or found > args.most:
        print(f"MISSED the aim of {args.most}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
