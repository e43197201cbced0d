# SPDX-License-Identifier: Apache-2.0
"""A module whose __spec__ is no specification: a look at it runs code of the program."""
import spanned.engine


class Spec:
    @property
    def _initializing(self):
        spanned.engine.calls_of_hostile.append("spec")
        return False


def strange():
    return None


__spec__ = Spec()
