/* SPDX-License-Identifier: MIT */
/* The end of an epoch, of storm.h: wave.h over plain MPI, or over the shim's rings when it
 * is preloaded.
 *
 * There is at most one message under way towards a rank and direction, and none of one
 * direction while one of the other may be: the sums of a child come before our own have
 * left, the parent's answer after that. So one tag serves both, a receive is posted only
 * for what will come, and none is left when an epoch has ended.
 */
#include "storm.h"

#include "../wave.h"

#include <stdlib.h>

enum {
    kTag = 0,
    kSendsMax = 32 /* a rank has fewer children than an int has bits */
};

struct storm_term {
    MPI_Comm comm;
    storm_wave wave;
    storm_sums in, out;
    MPI_Request receive;
    MPI_Request sends[kSendsMax]; /* of out */
    int sending;
};

int storm_term_begin(MPI_Comm comm, storm_term **term)
{
    if (term == NULL)
        return MPI_ERR_ARG;
    *term = NULL;
    MPI_Comm own;
    int rc = MPI_Comm_dup(comm, &own);
    if (rc != MPI_SUCCESS)
        return rc;
    MPI_Comm_set_errhandler(own, MPI_ERRORS_RETURN);
    storm_term *t = calloc(1, sizeof *t);
    rc = t == NULL ? MPI_ERR_NO_MEM : MPI_SUCCESS;
    /* All have one or nobody has. */
    int worst = rc;
    const int told = MPI_Allreduce(&rc, &worst, 1, MPI_INT, MPI_MAX, own);
    worst = told != MPI_SUCCESS ? told : worst;
    if (worst != MPI_SUCCESS) {
        free(t);
        MPI_Comm_free(&own);
        return worst;
    }
    int rank, ranks;
    MPI_Comm_rank(own, &rank);
    MPI_Comm_size(own, &ranks);
    storm_wave_init(&t->wave, rank, ranks);
    t->comm = own;
    t->receive = MPI_REQUEST_NULL;
    *term = t;
    return MPI_SUCCESS;
}

int storm_term_begin_fortran(MPI_Fint comm, storm_term **term)
{
    return storm_term_begin(MPI_Comm_f2c(comm), term);
}

static int post(storm_term *t, int to)
{
    return MPI_Isend(&t->out, sizeof t->out, MPI_BYTE, to, kTag, t->comm, &t->sends[t->sending++]);
}

static int act(storm_term *t, storm_wave_act what)
{
    if (what == STORM_WAVE_UP) {
        t->out = t->wave.sums;
        return post(t, storm_wave_parent(&t->wave));
    }
    t->out.sent = t->wave.over;
    int rc = MPI_SUCCESS;
    for (int n = t->wave.children; n-- > 0 && rc == MPI_SUCCESS;) /* the largest subtree first */
        rc = post(t, storm_wave_child(&t->wave, n));
    return rc;
}

/* *came: the next message of this wave stands in `in`. */
static int look(storm_term *t, int *came)
{
    int rc = MPI_SUCCESS;
    if (t->receive == MPI_REQUEST_NULL)
        rc = MPI_Irecv(&t->in, sizeof t->in, MPI_BYTE, t->wave.asked ? storm_wave_parent(&t->wave) : MPI_ANY_SOURCE,
                       kTag, t->comm, &t->receive);
    return rc == MPI_SUCCESS ? MPI_Test(&t->receive, came, MPI_STATUS_IGNORE) : rc;
}

int storm_term_progress(storm_term *t, int64_t sent, int64_t arrived, int idle, int *over)
{
    *over = 0;
    if (!t->wave.running && !idle)
        return MPI_SUCCESS;
    if (!t->wave.running)
        storm_wave_begin(&t->wave);
    int rc = MPI_SUCCESS, moved = 1;
    /* A busy rank need not gather: nothing can end before it is idle. */
    while (rc == MPI_SUCCESS && moved && t->wave.running && (idle || t->wave.asked)) {
        moved = 1;
        if (t->sending != 0) /* `out` is still read */
            rc = MPI_Testall(t->sending, t->sends, &moved, MPI_STATUSES_IGNORE);
        if (rc != MPI_SUCCESS || !moved)
            break;
        t->sending = 0;
        if (storm_wave_ready(&t->wave)) {
            rc = act(t, storm_wave_idle(&t->wave, (storm_sums){sent, arrived}));
            moved = t->wave.ranks > 1; /* a rank alone looks at its counts once a call */
            continue;
        }
        rc = look(t, &moved);
        if (rc == MPI_SUCCESS && moved && t->wave.asked)
            rc = act(t, storm_wave_down(&t->wave, t->in.sent != 0));
        else if (rc == MPI_SUCCESS && moved)
            storm_wave_up(&t->wave, t->in);
    }
    *over = rc == MPI_SUCCESS && !t->wave.running;
    return rc;
}

int storm_term_done(storm_term **term)
{
    storm_term *t = *term;
    if (t->wave.running)
        return MPI_ERR_PENDING;
    *term = NULL;
    const int rc = MPI_Waitall(t->sending, t->sends, MPI_STATUSES_IGNORE);
    MPI_Comm_free(&t->comm);
    free(t);
    return rc;
}
