/* SPDX-License-Identifier: MIT */
/* The end of an epoch, found by counts: two-phase, along a tree, safe against messages in
 * flight. One rank's part, as a state machine; who carries its messages is the caller's
 * matter (Rank::quiesce, and the static library of storm.h, which is why this is C).
 *
 * Waves go through the tree. In each one every rank, once it is idle and has the sums of
 * its children, sends its parent the sums of messages sent and *arrived*; the root tells
 * all to go on or that it is over. It is over when what was sent by a wave equals what
 * had arrived by the wave before. Why: counts only grow, so between the two waves nothing
 * was in flight and nothing arrived; and a rank that was idle becomes busy by an arrival
 * alone. One wave whose sums are equal is not enough: a message may be counted where it
 * arrives and not yet where it was sent.
 *
 * Costs: 2 (P - 1) messages of 16 bytes a wave, over 2 ceil(log2 P) hops, two waves at
 * least; none while any rank is busy. The tree is binomial: a subtree is a range of ranks,
 * so that on nodes filled in order one message a node and direction leaves it.
 */
#ifndef STORM_WAVE_H
#define STORM_WAVE_H

#include <stdint.h>
#include <string.h>

typedef struct storm_sums {
    int64_t sent;
    int64_t arrived;
} storm_sums;

/* What the caller shall do. */
typedef enum storm_wave_act {
    STORM_WAVE_NOTHING,
    STORM_WAVE_UP,   /* send `sums` to the parent */
    STORM_WAVE_DOWN, /* send each child `over`; when it is 1 the epoch has ended here */
} storm_wave_act;

typedef struct storm_wave {
    int rank, ranks;
    int children;
    int waiting;        /* for the sums of so many children */
    int asked;          /* our sums are with the parent, its answer has not come */
    int running;        /* between begin and the end */
    int over;           /* what the last DOWN says */
    storm_sums sums;    /* of the children so far, then with our own */
    int64_t arrived_before; /* root: in the wave before, -1: there was none */
} storm_wave;

static inline void storm_wave_next(storm_wave *w)
{
    w->waiting = w->children;
    w->asked = 0;
    w->sums.sent = w->sums.arrived = 0;
}

static inline void storm_wave_init(storm_wave *w, int rank, int ranks)
{
    memset(w, 0, sizeof *w);
    w->rank = rank;
    w->ranks = ranks;
    for (int64_t bit = 1; (rank & bit) == 0 && rank + bit < ranks; bit <<= 1)
        ++w->children;
    storm_wave_next(w);
}

static inline int storm_wave_parent(const storm_wave *w)
{
    return w->rank & (w->rank - 1);
}

static inline int storm_wave_child(const storm_wave *w, int n)
{
    return w->rank + (1 << n);
}

/* A new epoch. Counts go on. What a rank sends in it may arrive where the one before has
 * not been seen to end, and its sums where it has not begun. */
static inline void storm_wave_begin(storm_wave *w)
{
    w->arrived_before = -1;
    w->running = 1;
    w->over = 0;
}

/* A child's sums have come. */
static inline void storm_wave_up(storm_wave *w, storm_sums sums)
{
    --w->waiting;
    w->sums.sent += sums.sent;
    w->sums.arrived += sums.arrived;
}

/* The parent's answer has come. */
static inline storm_wave_act storm_wave_down(storm_wave *w, int over)
{
    storm_wave_next(w);
    w->over = over;
    w->running = !over;
    return STORM_WAVE_DOWN;
}

/* True when only this rank's own idleness is missing for its part of the wave. */
static inline int storm_wave_ready(const storm_wave *w)
{
    return w->running && !w->asked && w->waiting == 0;
}

/* This rank is idle, with these counts: its part of the wave, when it is ready. */
static inline storm_wave_act storm_wave_idle(storm_wave *w, storm_sums own)
{
    if (!storm_wave_ready(w))
        return STORM_WAVE_NOTHING;
    w->sums.sent += own.sent;
    w->sums.arrived += own.arrived;
    if (w->rank != 0) {
        w->asked = 1;
        return STORM_WAVE_UP;
    }
    const int over = w->sums.sent == w->arrived_before;
    w->arrived_before = w->sums.arrived;
    return storm_wave_down(w, over);
}

#endif
