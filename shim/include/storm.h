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

/* Regions: what happens between begin and end of one name is counted and timed apart,
 * and stands under that name in the report. Regions may be nested and may overlap, a
 * name may be used again, also while it is open (then the outermost pair counts). A
 * region is one rank's own: nothing is communicated. Both return 1, or 0 when nothing
 * was done: the job is not routed, the name is null or one of more than 256, or no
 * region of this name is open. MPI_Pcontrol(1) and (0) do the same under the name
 * MPI_Pcontrol. */
int storm_region_begin(const char *name);
int storm_region_end(const char *name);

#ifdef __cplusplus
}
#endif
#endif
