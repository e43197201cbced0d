# SPDX-License-Identifier: Apache-2.0
"""In sys.modules from the start, and executed when somebody first uses it."""


def postponed():
    return "postponed"
