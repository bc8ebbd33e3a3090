/* SPDX-License-Identifier: MIT
 *
 * storm.h - what a program may ask of libstorm.so when it is preloaded, and the direct
 * interface for programs that may change a few lines: particle channels, and the end of an
 * epoch found by counts.
 *
 * storm_version, storm_routed and the regions are in libstorm.so alone: look them up
 * with dlsym(RTLD_DEFAULT, ...), or declare them weak, so that the program also runs
 * without the shim. The rest is in libstorm-direct.a, which is linked to the program and
 * calls MPI as the program itself does: with the shim its messages go through rings,
 * without it by plain MPI. storm.h(3) describes them.
 */
#ifndef STORM_H
#define STORM_H

#include <mpi.h>

#include <stddef.h>
#include <stdint.h>

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

/* ---- particle channels
 *
 * All return MPI_SUCCESS or an MPI error code. A channel belongs to one thread at a time.
 */
typedef struct storm_channel storm_channel;

/* Opens a channel among the ranks of `comm` for records of `record_bytes` bytes, of which
 * up to `batch` go in one message (0: 64). Collective, the same arguments on all ranks.
 * On failure *channel is null. */
int storm_channel_open(MPI_Comm comm, size_t record_bytes, int batch, storm_channel **channel);

/* The same for Fortran: `comm` is a Fortran handle. */
int storm_channel_open_fortran(MPI_Fint comm, size_t record_bytes, int batch, storm_channel **channel);

/* Copies one record towards `rank`. It leaves when its batch is full, at a flush, or when
 * an idle rank asks storm_channel_terminate. Never waits for the receiver to poll. */
int storm_channel_push(storm_channel *channel, int rank, const void *record);

/* Batches that are not full leave now. */
int storm_channel_flush(storm_channel *channel);

/* The next batch that has arrived: *count records at *records, from rank *source (may be
 * null). *count is 0 when there is none. The records stay valid until the next call of
 * poll or close. */
int storm_channel_poll(storm_channel *channel, const void **records, int *count, int *source);

/* Looks for the end of a step. `idle`: this rank has nothing left to do for it but what
 * may still arrive. Call it again and again, with polls between, until *over is 1: then
 * it is 1 on all ranks, all ranks were idle, every record pushed was polled, and the
 * channel is ready for the next step. */
int storm_channel_terminate(storm_channel *channel, int idle, int *over);

/* Ends the channel and makes *channel null. Collective; nothing may be under way: after
 * storm_channel_terminate, with nothing pushed since. */
int storm_channel_close(storm_channel **channel);

/* ---- the end of an epoch
 *
 * For codes that send and receive by themselves: finds when all ranks are idle and every
 * message that was sent has arrived. Two waves at least through a tree of the ranks, each
 * of 2 (P - 1) messages over 2 log2 P hops; none while a rank is busy. All return
 * MPI_SUCCESS or an MPI error code.
 */
typedef struct storm_term storm_term;

/* Begins to look for ends among the ranks of `comm`. Collective. On failure *term is null. */
int storm_term_begin(MPI_Comm comm, storm_term **term);

/* The same for Fortran: `comm` is a Fortran handle. */
int storm_term_begin_fortran(MPI_Fint comm, storm_term **term);

/* One look, which never waits. `sent`, `arrived`: what this rank has sent to ranks of the
 * communicator and what it has taken in from them since storm_term_begin, in messages or
 * any unit that all share; they only grow. `idle`: nothing is left to do for this epoch but
 * what may still arrive. Call it again and again until *over is 1: then it is 1 on all
 * ranks, all were idle, and everything that was sent had arrived. The next call begins the
 * next epoch. */
int storm_term_progress(storm_term *term, int64_t sent, int64_t arrived, int idle, int *over);

/* Ends it and makes *term null. Collective; not in the middle of an epoch. */
int storm_term_done(storm_term **term);

#ifdef __cplusplus
}
#endif
#endif
