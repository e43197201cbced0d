# SPDX-License-Identifier: Apache-2.0
"""What the Python scripts among the tests share: a line of TAP per case, and the plan at the end."""
WHY_LINES, WHY_COLUMNS = 30, 300
cases = failed = 0


def ok(good, text, why=""):
    global cases, failed
    cases += 1
    failed += not good
    print(f"{'ok' if good else 'not ok'} {cases} - {text}")
    if not good and why:
        print("\n".join("# " + line[:WHY_COLUMNS] for line in str(why).splitlines()[:WHY_LINES]))


def skip(text, why):
    global cases
    cases += 1
    print(f"ok {cases} - {text} # SKIP {why}")


def end():
    """The plan; whether a case failed."""
    print(f"1..{cases}")
    return failed != 0
