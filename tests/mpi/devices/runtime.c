/* SPDX-License-Identifier: MIT */
/* Stands for the library of a GPU runtime: for the CUDA driver, or with -DSTAND_FOR_HIP
 * for HIP. Its device's memory is pages that are closed. The real MPI may touch them, as
 * one that knows devices would: a page opens for it until the program closes all again. A
 * touch by any other code is told on stderr and counted. */
#define _GNU_SOURCE 1
#include "runtime.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ROOM = 64 << 20, PAGE = 4096, MOST = 256, FRAMES = 24 };

static char *memory, *top;
static struct { char *base; size_t bytes; } allocations[MOST];
static int touched, asked[2], last_error;

/* Whose code is it: the first frame that is neither this library nor the C library's. */
static int by_real_mpi(void)
{
    void *frames[FRAMES];
    const int n = backtrace(frames, FRAMES);
    Dl_info own, info;
    dladdr(&touched, &own);
    for (int i = 1; i < n; ++i) {
        if (!dladdr(frames[i], &info) || info.dli_fbase == own.dli_fbase || strstr(info.dli_fname, "libc.so") ||
            strstr(info.dli_fname, "libgcc_s"))
            continue;
        if (strstr(info.dli_fname, "libmpi") || strstr(info.dli_fname, "libopen-") || strstr(info.dli_fname, "/mca_"))
            return 1;
        static const char text[] = "a device's memory is touched by ";
        if (write(2, text, sizeof text - 1) < 0 || write(2, info.dli_fname, strlen(info.dli_fname)) < 0 ||
            write(2, "\n", 1) < 0)
            return 0;
        return 0;
    }
    return 0;
}

static void on_touch(int number, siginfo_t *info, void *context)
{
    (void)context;
    char *at = info->si_addr;
    if (at < memory || at >= memory + ROOM) {
        signal(number, SIG_DFL);
        return;
    }
    if (!by_real_mpi())
        ++touched;
    mprotect((char *)((uintptr_t)at & ~(uintptr_t)(PAGE - 1)), PAGE, PROT_READ | PROT_WRITE);
}

static void begin(void)
{
    void *frame;
    backtrace(&frame, 1); /* loads what it needs, outside of a signal handler */
    memory = top = mmap(NULL, ROOM, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_touch;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, NULL);
}

static int find(uintptr_t address)
{
    for (int i = 0; i < MOST; ++i)
        if (address - (uintptr_t)allocations[i].base < allocations[i].bytes)
            return i;
    return -1;
}

static int ask(uintptr_t address)
{
    const int i = find(address);
    ++asked[i >= 0];
    return i;
}

/* ---- for the program */

PUBLIC void *device_alloc(size_t bytes)
{
    if (memory == NULL)
        begin();
    for (int i = 0; i < MOST; ++i)
        if (allocations[i].bytes == 0) {
            allocations[i].base = top;
            allocations[i].bytes = bytes;
            top += (bytes + PAGE - 1) / PAGE * PAGE + PAGE;
            return allocations[i].base;
        }
    return NULL;
}

/* No driver maps memory in less time. */
PUBLIC void device_take_back(void *base, size_t bytes)
{
    usleep(50);
    for (int i = 0; i < MOST; ++i)
        if (allocations[i].bytes == 0) {
            allocations[i].base = base;
            allocations[i].bytes = bytes;
            break;
        }
    device_close();
}

PUBLIC void device_free(void *base)
{
    const int i = find((uintptr_t)base);
    mprotect(base, (allocations[i].bytes + PAGE - 1) / PAGE * PAGE, PROT_READ | PROT_WRITE);
    allocations[i].bytes = 0;
}

PUBLIC void device_copy(void *to, const void *from, size_t bytes)
{
    for (int i = 0; i < MOST; ++i)
        if (allocations[i].bytes != 0)
            mprotect(allocations[i].base, allocations[i].bytes, PROT_READ | PROT_WRITE);
    memcpy(to, from, bytes);
    device_close();
}

PUBLIC void device_close(void)
{
    for (int i = 0; i < MOST; ++i)
        if (allocations[i].bytes != 0)
            mprotect(allocations[i].base, allocations[i].bytes, PROT_NONE);
}

PUBLIC int device_touched(void)
{
    return touched;
}

PUBLIC int device_asked(int about_devices)
{
    return asked[about_devices];
}

PUBLIC void device_fail_once(void)
{
    last_error = 700;
}

/* ---- what a shim looks for */

#ifndef STAND_FOR_HIP
PUBLIC int cuPointerGetAttribute(void *value, int attribute, unsigned long long address)
{
    if (attribute != 2 || ask(address) < 0)
        return 1;
    *(unsigned *)value = 2;
    return 0;
}

PUBLIC int cuMemGetAddressRange_v2(unsigned long long *base, size_t *bytes, unsigned long long address)
{
    const int i = find(address);
    if (i < 0)
        return 1;
    *base = (uintptr_t)allocations[i].base;
    *bytes = allocations[i].bytes;
    return 0;
}
#else
struct attributes {
    int type, device;
    void *on_device, *on_host;
    int managed;
    unsigned flags;
};

PUBLIC int hipPointerGetAttributes(struct attributes *told, const void *address)
{
    const int i = ask((uintptr_t)address);
    if (i < 0)
        return last_error = 1;
    memset(told, 0, sizeof *told);
    told->type = 2;
    told->on_device = (void *)address;
    return 0;
}

PUBLIC int hipMemGetAddressRange(void **base, size_t *bytes, void *address)
{
    const int i = find((uintptr_t)address);
    if (i < 0)
        return last_error = 1;
    *base = allocations[i].base;
    *bytes = allocations[i].bytes;
    return 0;
}

PUBLIC int hipPeekAtLastError(void)
{
    return last_error;
}

PUBLIC int hipGetLastError(void)
{
    const int error = last_error;
    last_error = 0;
    return error;
}
#endif
