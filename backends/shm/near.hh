// SPDX-License-Identifier: MIT
// Whose NUMA node the pages of a slab of rings come from. Senders have them allocated
// (slab.hh), and the kernel gives a page on the node of the process that causes it. A
// policy of the memfd itself goes before that: set once by the owner, it holds for every
// process that maps the file or calls fallocate.
#pragma once

namespace storm::shm {

// Pages of `fd` come from the node where this process runs, as long as that has any, or
// from where a policy of the user's (numactl) wants them. Without effect, and without
// harm, where the kernel knows no NUMA or forbids the call.
void keep_near(int fd);

} // namespace storm::shm
