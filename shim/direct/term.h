/* What the channels use of term.c beside storm.h: an end on a communicator of theirs, under
 * a tag that nothing else has there; and what it has cost so far. */
#ifndef STORM_TERM_H
#define STORM_TERM_H

#include "storm.h"

#ifdef __cplusplus
extern "C" {
#endif

int storm_term_on(MPI_Comm comm, int tag, storm_term **term);

/* Messages that this rank has sent, and waves that it has seen answered. */
void storm_term_cost(const storm_term *term, int64_t *messages, int64_t *waves);

#ifdef __cplusplus
}
#endif
#endif
