/* Phases that threads go through side by side.

   A phase is cut into parts, which whoever is free takes, and ends when all are done. Nobody waits for
   a thread that is late: it finds that others have done the work. Who waits for a part that somebody
   has begun spins, since a part takes microseconds. */

#ifndef VOX_NATIVE_PHASES_H
#define VOX_NATIVE_PHASES_H

#include "native.h"

#if HAS_TWINS
#include <sched.h>

enum { PHASE_SPINS = 20000 };

/* The first part of a phase that nobody has taken, and how many are done. */
typedef struct {
    int64_t next, num_done;
    char alone[48]; /* in a cache line */
} Phase;

static int64_t take_part(Phase *phase) {
    return __atomic_fetch_add(&phase->next, 1, __ATOMIC_RELAXED);
}

static void end_part(Phase *phase) { __atomic_fetch_add(&phase->num_done, 1, __ATOMIC_RELEASE); }

static void wait_for(Phase *phase, int64_t num) {
    for (int i = 0; __atomic_load_n(&phase->num_done, __ATOMIC_ACQUIRE) < num; i++)
        i < PHASE_SPINS ? __builtin_ia32_pause() : (void)sched_yield();
}

/* Has the statement behind it run for the parts from 0 to `num` that this thread takes. */
#define TAKE(part, phase, num)                                                                     \
    for (int64_t part; (part = take_part(phase)) < (num); end_part(phase))
#endif

#endif
