#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes from calls.tbl whatever must agree with it.

usage: generate.py calls.tbl WHAT OUTPUT
  real      the members of RealMpi, one STORM_REAL(name) a call
  decls     declarations of the calls written by hand (class ours)
  wrappers  MPI_X and PMPI_X of every exported call, and the bodies of the
            classes comm and enter
  map       the linker's version script
  roff      the rows of the man page's table
  names     STORM_CALL(name, what happens to it), for storm-info
"""
import re
import sys

STORM_H_VERSION = 'STORM_0.1' # of the functions of storm.h; another when one of them changes
CLASSES = ('ours', 'comm', 'enter', 'use', 'pass', 'data')


class Call:
    def __init__(self, kind, proto):
        self.kind = kind
        m = re.fullmatch(r'(\w[\w *]*?)\s*\bMPI_(\w+)\s*\((.*)\)', proto)
        if not m:
            raise SystemExit(f'calls.tbl: not a prototype: {proto}')
        self.ret, self.name, self.params = m.groups()
        self.args = []
        if self.params != 'void':
            for p in self.params.split(','):
                a = re.fullmatch(r'.*?(\w+)\s*((\[\d*\])*)', p.strip())
                if a: # what stands for `...` cannot be passed on
                    self.args.append(a.group(1))

    def pass_on(self):
        return ', '.join(self.args)

    def made_comm(self):
        """the argument in which a constructor returns its communicator"""
        return re.findall(r'MPI_Comm \*\s*(\w+)', self.params)[-1]


def read(path):
    calls, data = [], []
    for number, line in enumerate(open(path, encoding='utf-8'), 1):
        line = line.split('#')[0].strip()
        if not line:
            continue
        kind, rest = line.split(None, 1)
        if kind not in CLASSES:
            raise SystemExit(f'{path}:{number}: unknown class {kind}')
        if kind == 'data':
            data.append(rest)
        else:
            calls.append(Call(kind, rest))
    return calls, data


def exported(calls):
    return [c for c in calls if c.kind in ('ours', 'comm', 'enter')]


def real(calls):
    return ''.join(f'STORM_REAL({c.name})\n' for c in calls if c.kind != 'pass')


def decls(calls):
    return ''.join(f'{c.ret} {c.name}({c.params});\n' for c in calls if c.kind == 'ours')


BODIES = {
    'enter': '''{ret} {name}({params})
{{
    if (!routed())
        return process.real.{name}({args});
    const Entered entered{{{may_wait}}};
    return process.real.{name}({args});
}}
''',
    'comm': '''{ret} {name}({params})
{{
    if (!routed())
        return process.real.{name}({args});
    const bool nested = Entered::inside();
    {ret} rc;
    {{
        const Entered entered;
        rc = process.real.{name}({args});
    }}
    if (rc == MPI_SUCCESS)
        adopt({parent}, *{made}, nested);
    return rc;
}}
''',
    'ours': '',
}

# Two slots a call. Each begins at a function that looks once where all calls
# go; from then on an exported function is one load and one jump. The jump
# leaves the return address in place: so the first call is told who calls.
WRAPPER = '''{body}
namespace slot {{
{ret} first_pmpi_{name}({params});
{ret} first_mpi_{name}({params});
constinit Slot<decltype(&PMPI_{name})> pmpi_{name}{{first_pmpi_{name}}};
constinit Slot<decltype(&PMPI_{name})> mpi_{name}{{first_mpi_{name}}};
{ret} first_pmpi_{name}({params})
{{
    fill(__builtin_return_address(0));
    return pmpi_{name}.get()({args});
}}
{ret} first_mpi_{name}({params})
{{
    fill(__builtin_return_address(0));
    return mpi_{name}.get()({args});
}}
}} // namespace slot
extern "C" STORM_EXPORT {ret} PMPI_{name}({params})
{{
    return slot::pmpi_{name}.get()({args});
}}
extern "C" STORM_EXPORT {ret} MPI_{name}({params})
{{
    return slot::mpi_{name}.get()({args});
}}
'''

# All at once: in a destructor, say, it might be too late to ask for the rest.
FILL = '''
namespace slot {{
void fill(const void* caller)
{{
    const NextScope next(caller);
{rows}}}
}} // namespace slot
'''


def wrappers(calls):
    out = []
    for c in exported(calls):
        made = c.made_comm() if c.kind == 'comm' else ''
        parent = c.pass_on().split(', ')[0] # of every constructor the first argument
        # a nonblocking call must not wait for a peer that is outside MPI
        may_wait = 'false' if re.match(r'I[a-z]', c.name) and not c.name.startswith('Intercomm') else 'true'
        known = dict(may_wait=may_wait, ret=c.ret, name=c.name, params=c.params, args=c.pass_on(), made=made,
                     parent=parent)
        out.append(WRAPPER.format(body=BODIES[c.kind].format(**known), **known))
    return 'namespace slot {\nvoid fill(const void* caller);\n}\n' + '\n'.join(out) + FILL.format(
        rows=''.join(f'    pmpi_{c.name}.set(served(next, "PMPI_{c.name}", &storm::interpose::{c.name}));\n'
                     f'    mpi_{c.name}.set(next_tool(next, "MPI_{c.name}", pmpi_{c.name}.get()));\n'
                     for c in exported(calls)))


def version_map(calls):
    """Programs that link the functions of storm.h name their version; MPI's are looked up without one."""
    names = sorted(p + c.name for c in exported(calls) for p in ('MPI_', 'PMPI_'))
    lines = ''.join(f'    {n};\n' for n in names)
    return (f'MPI {{\n  global:\n{lines}  local:\n    *;\n}};\n'
            f'{STORM_H_VERSION} {{\n  global:\n    storm_*;\n}};\n')


SAYS = {
    'ours': 'taken over', 'comm': 'passed on; the communicator made is routed',
    'enter': 'passed on; sends placed before, progress inside', 'use': 'untouched',
    'pass': 'untouched',
}


def roff(calls):
    rows = sorted((c.name, c.kind) for c in calls)
    return ''.join(f'MPI_{n}\t{SAYS[k]}\n' for n, k in rows)


def names(calls):
    rows = sorted((CLASSES.index(c.kind), c.name) for c in calls)
    return ''.join(f'STORM_CALL("MPI_{n}", "{SAYS[CLASSES[k]]}")\n' for k, n in rows)


def main():
    if len(sys.argv) != 4:
        raise SystemExit(__doc__)
    calls, _ = read(sys.argv[1])
    makers = {'real': real, 'decls': decls, 'wrappers': wrappers, 'map': version_map, 'roff': roff,
              'names': names}
    text = makers[sys.argv[2]](calls)
    with open(sys.argv[3], 'w', encoding='utf-8') as f:
        f.write(text)


if __name__ == '__main__':
    main()
