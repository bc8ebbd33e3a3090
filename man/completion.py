#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints the lists for the completion of bash, from what the programs say of themselves.

usage: completion.py STORMRUN STORM_INFO

Options come from --help (a word in capitals after one is its value), those of the
launchers from `stormrun --list-options`, settings from `storm-info --json --settings`.
"""
import json
import os
import re
import subprocess
import sys


def output_of(*command):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(('STORM_', 'LD_PRELOAD'))}
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout


def options(text):
    """Of a help text: all options, and those whose value is the next word."""
    names = re.findall(r'(?<!\S)\[?(--[a-z-]+)', text)
    with_value = re.findall(r'^  (--[a-z-]+) [A-Z]+', text, re.M)
    return list(dict.fromkeys(names)), with_value


def words(name, values):
    return f"{name}='{' '.join(values)}'\n"


def values(setting):
    if setting['kind'] == 'flag':
        return ['0', '1']
    if setting['kind'] == 'choice':
        return setting['range'].split(', ')
    return [setting['default']]


def main():
    stormrun, storm_info = sys.argv[1:]
    out = ''
    for name, program in (('_stormrun', stormrun), ('_storm_info', storm_info)):
        own, with_value = options(output_of(program, '--help'))
        out += words(name + '_options', own) + words(name + '_with_value', with_value)
    out += words('_stormrun_launcher_options', sorted(set(output_of(stormrun, '--list-options').split())))
    settings = json.loads(output_of(storm_info, '--json', '--settings'))['settings']
    out += words('_storm_settings', [f"{s['name']}={'|'.join(values(s))}" for s in settings])
    sys.stdout.write(out)


if __name__ == '__main__':
    main()
