# SPDX-License-Identifier: Apache-2.0
"""A package whose functions a catalogue names."""
