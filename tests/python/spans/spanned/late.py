# SPDX-License-Identifier: Apache-2.0
"""Imported long after the rest."""


def late():
    return "late"
