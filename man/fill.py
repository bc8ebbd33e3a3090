#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Puts generated rows in place of the line @ROWS@ of a man page.

usage: fill.py PAGE.in PAGE --run COMMAND...   rows are what the command prints
       fill.py PAGE.in PAGE --calls FILE       rows are MPI calls, grouped by what
                                               happens to them (NAME <tab> WHAT)
"""
import os
import subprocess
import sys


def rows_of_command(command):
    # without the variables that the page must not depend on
    environment = {k: v for k, v in os.environ.items() if not k.startswith(('STORM_', 'LD_PRELOAD'))}
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout


def rows_of_calls(path):
    groups = {}
    with open(path, encoding='utf-8') as f:
        for line in f:
            name, what = line.rstrip('\n').split('\t')
            groups.setdefault(what, []).append(name)
    out = []
    for what in sorted(groups, key=lambda w: (w == 'untouched', w)):
        out.append(f'.SS {what[0].upper()}{what[1:]}\n')
        names = groups[what]
        out += [f'.BR {n} {"." if n == names[-1] else ","}\n' for n in names]
    return ''.join(out)


def main():
    if len(sys.argv) < 5 or sys.argv[3] not in ('--run', '--calls'):
        raise SystemExit(__doc__)
    source, target, kind, *what = sys.argv[1:]
    rows = rows_of_command(what) if kind == '--run' else rows_of_calls(what[0])
    with open(source, encoding='utf-8') as f:
        lines = f.readlines()
    if lines.count('@ROWS@\n') != 1:
        raise SystemExit(f'{source}: one line @ROWS@ is wanted, there are {lines.count("@ROWS@" + chr(10))}')
    if not rows.strip():
        raise SystemExit(f'{source}: there are no rows')
    with open(target, 'w', encoding='utf-8') as f:
        f.write(''.join(rows if line == '@ROWS@\n' else line for line in lines))


if __name__ == '__main__':
    main()
