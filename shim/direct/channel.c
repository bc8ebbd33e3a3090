/* SPDX-License-Identifier: MIT */
/* The channels of storm.h: libstorm-direct.a, linked to the program. It stands where the
 * program stands, above MPI_X, and knows nothing of what is below: plain MPI, or the
 * shim's rings when it is preloaded.
 *
 * Receives of any source stand posted in a fixed order. Messages match them in that
 * order, so a look is one test of the oldest, whatever the number of neighbours. Each
 * message names its step: a rank that saw the end of a step may send for the next one
 * before its neighbour has seen it, and those batches wait.
 */
#include "storm.h"

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    kTag = 0,
    kReceives = 16,
    kBatchDefault = 64,
    kSendsFirst = 16, /* send buffers; doubled on demand up to kSendsMax */
    kSendsMax = 1024
};

/* Before the records of each message; keeps them aligned to 16 bytes. */
typedef struct {
    int64_t step;
    int64_t count;
} header;

/* A batch that came before its time, or while a push looked for a free buffer. */
typedef struct kept {
    struct kept *next;
    int source;
    header *message;
} kept;

struct storm_channel {
    MPI_Comm comm;
    size_t record_bytes, message_bytes;
    int batch, ranks;

    header *received[kReceives];
    MPI_Request receives[kReceives];
    int oldest;
    int lent; /* the oldest receive's buffer is the program's until its next call */

    header **filling; /* by rank: the batch being filled, or null */
    int *filling_at;  /* its send buffer */
    int *partial;     /* ranks with a batch begun, `partials` of them; their place here: */
    int *partial_at;
    int partials;

    header **sends;
    MPI_Request *requests;
    int *free_sends, *done;
    int sends_count, frees;

    kept *first, *last; /* in order of arrival */
    kept *shown;        /* lent to the program */

    int64_t step, sent, arrived; /* records, all steps */
    storm_term *end; /* of a step */
};

static void *buffer_of(size_t bytes)
{
    return aligned_alloc(64, (bytes + 63) / 64 * 64);
}

static int add_sends(storm_channel *c, int count)
{
    const size_t all = (size_t)(c->sends_count + count);
    header **sends = realloc(c->sends, all * sizeof *sends);
    c->sends = sends != NULL ? sends : c->sends;
    MPI_Request *requests = realloc(c->requests, all * sizeof *requests);
    c->requests = requests != NULL ? requests : c->requests;
    int *free_sends = realloc(c->free_sends, all * sizeof *free_sends);
    c->free_sends = free_sends != NULL ? free_sends : c->free_sends;
    int *done = realloc(c->done, all * sizeof *done);
    c->done = done != NULL ? done : c->done;
    if (sends == NULL || requests == NULL || free_sends == NULL || done == NULL)
        return MPI_ERR_NO_MEM;
    for (; count > 0; --count) {
        header *made = buffer_of(c->message_bytes);
        if (made == NULL)
            return MPI_ERR_NO_MEM;
        c->sends[c->sends_count] = made;
        c->requests[c->sends_count] = MPI_REQUEST_NULL;
        c->free_sends[c->frees++] = c->sends_count++;
    }
    return MPI_SUCCESS;
}

static void release(storm_channel *c)
{
    for (int i = 0; i < kReceives; ++i)
        free(c->received[i]);
    for (int i = 0; i < c->sends_count; ++i)
        free(c->sends[i]);
    while (c->first != NULL) {
        kept *next = c->first->next;
        free(c->first->message);
        free(c->first);
        c->first = next;
    }
    if (c->shown != NULL)
        free(c->shown->message);
    free(c->shown);
    free(c->filling);
    free(c->filling_at);
    free(c->partial);
    free(c->partial_at);
    free(c->sends);
    free(c->requests);
    free(c->free_sends);
    free(c->done);
    free(c);
}

static int allocate(storm_channel *c)
{
    const size_t ranks = (size_t)c->ranks;
    c->filling = calloc(ranks, sizeof *c->filling);
    c->filling_at = calloc(ranks, sizeof *c->filling_at);
    c->partial = calloc(ranks, sizeof *c->partial);
    c->partial_at = calloc(ranks, sizeof *c->partial_at);
    if (c->filling == NULL || c->filling_at == NULL || c->partial == NULL || c->partial_at == NULL)
        return MPI_ERR_NO_MEM;
    for (int i = 0; i < kReceives; ++i) {
        c->receives[i] = MPI_REQUEST_NULL;
        c->received[i] = buffer_of(c->message_bytes);
        if (c->received[i] == NULL)
            return MPI_ERR_NO_MEM;
    }
    return add_sends(c, kSendsFirst);
}

int storm_channel_open(MPI_Comm comm, size_t record_bytes, int batch, storm_channel **channel)
{
    if (channel == NULL)
        return MPI_ERR_ARG;
    *channel = NULL;
    batch = batch == 0 ? kBatchDefault : batch;
    if (record_bytes == 0 || batch < 0 || record_bytes > (INT_MAX - sizeof(header)) / (size_t)batch)
        return MPI_ERR_ARG;
    MPI_Comm own;
    int rc = MPI_Comm_dup(comm, &own);
    if (rc != MPI_SUCCESS)
        return rc;
    MPI_Comm_set_errhandler(own, MPI_ERRORS_RETURN);
    storm_channel *c = calloc(1, sizeof *c);
    rc = c == NULL ? MPI_ERR_NO_MEM : MPI_SUCCESS;
    if (c != NULL) {
        c->comm = own;
        c->record_bytes = record_bytes;
        c->batch = batch;
        c->message_bytes = sizeof(header) + record_bytes * (size_t)batch;
        MPI_Comm_size(own, &c->ranks);
        rc = allocate(c);
    }
    /* All have one or nobody has. */
    int worst = rc;
    const int told = MPI_Allreduce(&rc, &worst, 1, MPI_INT, MPI_MAX, own);
    worst = told != MPI_SUCCESS ? told : worst;
    worst = worst == MPI_SUCCESS ? storm_term_begin(own, &c->end) : worst;
    for (int i = 0; i < kReceives && worst == MPI_SUCCESS; ++i) {
        worst = MPI_Recv_init(c->received[i], (int)c->message_bytes, MPI_BYTE, MPI_ANY_SOURCE, kTag, own,
                              &c->receives[i]);
        worst = worst == MPI_SUCCESS ? MPI_Start(&c->receives[i]) : worst;
    }
    if (worst != MPI_SUCCESS) {
        if (c != NULL && c->end != NULL)
            storm_term_done(&c->end);
        if (c != NULL)
            release(c);
        MPI_Comm_free(&own);
        return worst;
    }
    *channel = c;
    return MPI_SUCCESS;
}

int storm_channel_open_fortran(MPI_Fint comm, size_t record_bytes, int batch, storm_channel **channel)
{
    return storm_channel_open(MPI_Comm_f2c(comm), record_bytes, batch, channel);
}

/* ---- receiving */

/* The oldest receive's buffer is free again. */
static int restart(storm_channel *c)
{
    c->lent = 0;
    const int at = c->oldest;
    c->oldest = (at + 1) % kReceives;
    return MPI_Start(&c->receives[at]);
}

static int keep(storm_channel *c, int source)
{
    kept *k = malloc(sizeof *k);
    header *empty = buffer_of(c->message_bytes);
    if (k == NULL || empty == NULL) {
        free(k);
        free(empty);
        return MPI_ERR_NO_MEM;
    }
    const header *from = c->received[c->oldest];
    memcpy(empty, from, sizeof *from + (size_t)from->count * c->record_bytes);
    *k = (kept){NULL, source, empty};
    if (c->last != NULL)
        c->last->next = k;
    else
        c->first = k;
    c->last = k;
    return restart(c);
}

/* The first kept batch of this step, or null. */
static kept *take_kept(storm_channel *c)
{
    kept *before = NULL;
    for (kept *k = c->first; k != NULL; before = k, k = k->next)
        if (k->message->step == c->step) {
            if (before != NULL)
                before->next = k->next;
            else
                c->first = k->next;
            if (c->last == k)
                c->last = before;
            return k;
        }
    return NULL;
}

static int show(storm_channel *c, const header *message, int from, const void **records, int *count, int *source)
{
    *records = message + 1;
    *count = (int)message->count;
    if (source != NULL)
        *source = from;
    c->arrived += message->count;
    return MPI_SUCCESS;
}

int storm_channel_poll(storm_channel *c, const void **records, int *count, int *source)
{
    *count = 0;
    int rc = c->lent ? restart(c) : MPI_SUCCESS;
    if (c->shown != NULL) {
        free(c->shown->message);
        free(c->shown);
        c->shown = NULL;
    }
    if (c->first != NULL && (c->shown = take_kept(c)) != NULL)
        return show(c, c->shown->message, c->shown->source, records, count, source);
    while (rc == MPI_SUCCESS) {
        int done = 0;
        MPI_Status status;
        rc = MPI_Test(&c->receives[c->oldest], &done, &status);
        if (rc != MPI_SUCCESS || !done)
            return rc;
        if (c->received[c->oldest]->step == c->step) {
            c->lent = 1;
            return show(c, c->received[c->oldest], status.MPI_SOURCE, records, count, source);
        }
        rc = keep(c, status.MPI_SOURCE);
    }
    return rc;
}

/* ---- sending */

/* Takes in what has arrived, so that two ranks that both wait for buffers go on. A
 * buffer that the program still reads stands in the way of later ones: none is taken. */
static int drain(storm_channel *c)
{
    int done = 1;
    int rc = MPI_SUCCESS;
    while (rc == MPI_SUCCESS && done && !c->lent) {
        MPI_Status status;
        rc = MPI_Test(&c->receives[c->oldest], &done, &status);
        if (rc == MPI_SUCCESS && done)
            rc = keep(c, status.MPI_SOURCE);
    }
    return rc;
}

static int take_free(storm_channel *c, int *at)
{
    while (c->frees == 0) {
        int count = 0;
        int rc = MPI_Testsome(c->sends_count, c->requests, &count, c->done, MPI_STATUSES_IGNORE);
        for (int i = 0; rc == MPI_SUCCESS && count != MPI_UNDEFINED && i < count; ++i)
            c->free_sends[c->frees++] = c->done[i];
        if (rc == MPI_SUCCESS && c->frees == 0)
            /* what the program still reads cannot be drained: more buffers instead */
            rc = c->sends_count < kSendsMax || c->lent ? add_sends(c, c->sends_count) : drain(c);
        if (rc != MPI_SUCCESS)
            return rc;
    }
    *at = c->free_sends[--c->frees];
    return MPI_SUCCESS;
}

static int begin(storm_channel *c, int rank)
{
    int at;
    const int rc = take_free(c, &at);
    if (rc != MPI_SUCCESS)
        return rc;
    c->filling[rank] = c->sends[at];
    c->filling_at[rank] = at;
    *c->filling[rank] = (header){c->step, 0};
    c->partial_at[rank] = c->partials;
    c->partial[c->partials++] = rank;
    return MPI_SUCCESS;
}

static int leave(storm_channel *c, int rank)
{
    header *message = c->filling[rank];
    c->filling[rank] = NULL;
    const int last = c->partial[--c->partials];
    c->partial[c->partial_at[rank]] = last;
    c->partial_at[last] = c->partial_at[rank];
    c->sent += message->count;
    const size_t bytes = sizeof *message + (size_t)message->count * c->record_bytes;
    return MPI_Isend(message, (int)bytes, MPI_BYTE, rank, kTag, c->comm, &c->requests[c->filling_at[rank]]);
}

int storm_channel_push(storm_channel *c, int rank, const void *record)
{
    if (rank < 0 || rank >= c->ranks)
        return MPI_ERR_RANK;
    if (c->filling[rank] == NULL) {
        const int rc = begin(c, rank);
        if (rc != MPI_SUCCESS)
            return rc;
    }
    header *message = c->filling[rank];
    memcpy((char *)(message + 1) + (size_t)message->count * c->record_bytes, record, c->record_bytes);
    return ++message->count == c->batch ? leave(c, rank) : MPI_SUCCESS;
}

int storm_channel_flush(storm_channel *c)
{
    int rc = MPI_SUCCESS;
    while (rc == MPI_SUCCESS && c->partials > 0)
        rc = leave(c, c->partial[c->partials - 1]);
    return rc;
}

/* ---- the end of a step, and of the channel */

int storm_channel_terminate(storm_channel *c, int idle, int *over)
{
    *over = 0;
    int rc = idle ? storm_channel_flush(c) : MPI_SUCCESS;
    if (rc == MPI_SUCCESS)
        rc = storm_term_progress(c->end, c->sent, c->arrived, idle, over);
    c->step += *over;
    return rc;
}

int storm_channel_close(storm_channel **channel)
{
    storm_channel *c = *channel;
    if (c->partials != 0 || c->first != NULL)
        return MPI_ERR_PENDING;
    int rc = storm_term_done(&c->end);
    if (rc != MPI_SUCCESS)
        return rc;
    *channel = NULL;
    rc = MPI_Waitall(c->sends_count, c->requests, MPI_STATUSES_IGNORE);
    const int reached = MPI_Barrier(c->comm);
    rc = rc == MPI_SUCCESS ? reached : rc;
    for (int i = 0; i < kReceives; ++i) {
        if (!c->lent || i != c->oldest) {
            MPI_Cancel(&c->receives[i]);
            MPI_Wait(&c->receives[i], MPI_STATUS_IGNORE);
        }
        MPI_Request_free(&c->receives[i]);
    }
    MPI_Comm own = c->comm;
    release(c);
    MPI_Comm_free(&own);
    return rc;
}
