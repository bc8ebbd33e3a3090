/* SPDX-License-Identifier: MIT */
/* What the program asks of the library that stands for a GPU runtime (runtime.c). */
#pragma once

#include <stddef.h>

#ifdef __cplusplus
#define PUBLIC extern "C" __attribute__((visibility("default")))
#else
#define PUBLIC __attribute__((visibility("default")))
#endif

PUBLIC void *device_alloc(size_t bytes);
PUBLIC void device_free(void *base);                              /* the CPU may touch it now */
PUBLIC void device_take_back(void *base, size_t bytes);            /* what was freed is its own again */
PUBLIC void device_copy(void *to, const void *from, size_t bytes); /* either may be a device's */
PUBLIC void device_close(void);                                   /* nobody may touch it */
PUBLIC int device_touched(void);      /* by other code than the real MPI's */
PUBLIC int device_asked(int about_devices); /* questions about devices' memory, or about the CPU's */
PUBLIC void device_fail_once(void);   /* leaves an error that the program has not asked for yet */
