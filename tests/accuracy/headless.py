#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A copy of an ELF program without section headers, as packers leave it. usage: headless.py FROM TO"""
import os
import sys


def main():
    source, to = sys.argv[1:]
    with open(source, "rb") as f:
        image = bytearray(f.read())
    image[40:48] = bytes(8)  # e_shoff
    image[58:64] = b"\x40\0" + bytes(4)  # e_shentsize, e_shnum, e_shstrndx
    with open(to, "wb") as f:
        f.write(image)
    os.chmod(to, 0o755)


if __name__ == "__main__":
    main()
