/* SPDX-License-Identifier: MIT
 *
 * storm.h - what a program may ask of libstorm.so when it is preloaded. Look the
 * functions up with dlsym(RTLD_DEFAULT, ...), or declare them weak, so that the
 * program also runs without the shim.
 */
#ifndef STORM_H
#define STORM_H

#ifdef __cplusplus
extern "C" {
#endif

/* Version of the preloaded library, as "0.1.0". */
const char *storm_version(void);

/* 1 between MPI_Init and MPI_Finalize of a routed job, else 0. */
int storm_routed(void);

#ifdef __cplusplus
}
#endif
#endif
