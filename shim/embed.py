#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes C++ string literals of a page: what stands before its line @DATA@, and behind.

usage: embed.py PAGE BEGIN.inc END.inc
"""
import sys


def main():
    page, *targets = sys.argv[1:]
    with open(page, encoding='utf-8') as f:
        parts = f.read().split('@DATA@\n')
    if len(parts) != 2 or len(targets) != 2:
        raise SystemExit(__doc__)
    for text, target in zip(parts, targets):
        with open(target, 'w', encoding='utf-8') as f:
            f.write(f'R"page({text})page"\n')


if __name__ == '__main__':
    main()
