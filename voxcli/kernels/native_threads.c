/* Threads of our own, for a process without torch, whose OpenMP lends them else.

   They are started at the first call that asks for them. Between calls they spin for a moment, in
   which the next call often comes, then sleep. Nobody waits for one that sleeps: whoever comes too
   late finds that the others have done the work. One call at a time has the threads; a call that
   comes meanwhile works alone. */

#define _GNU_SOURCE
#include "native.h"

#if HAS_TWINS && defined(__linux__)
#include <pthread.h>
#include <sched.h>
#include <signal.h>

enum { MOST_THREADS = 256, SPINS = 4000 };

static pthread_mutex_t taken = PTHREAD_MUTEX_INITIALIZER; /* by the call that has the threads */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;  /* of all below */
static pthread_cond_t begun = PTHREAD_COND_INITIALIZER;
static void (*work)(void *); /* none between calls */
static void *argument;
static int64_t num_wanted, num_started, num_at_work, num_calls;

static void *serve(void *given) {
    const int64_t own = (int64_t)(intptr_t)given;
    int64_t seen = -1;
    for (;;) {
        for (int i = 0; i < SPINS && __atomic_load_n(&num_calls, __ATOMIC_RELAXED) == seen; i++)
            __builtin_ia32_pause();
        pthread_mutex_lock(&lock);
        while (num_calls == seen) pthread_cond_wait(&begun, &lock);
        seen = num_calls;
        void (*function)(void *) = own < num_wanted ? work : 0;
        void *call = argument;
        if (function) __atomic_fetch_add(&num_at_work, 1, __ATOMIC_RELAXED);
        pthread_mutex_unlock(&lock);
        if (!function) continue;
        function(call);
        __atomic_fetch_sub(&num_at_work, 1, __ATOMIC_RELEASE);
    }
    return 0;
}

/* A child process has no threads of its parent. */
static void forget_threads(void) {
    num_started = num_at_work = 0;
    work = 0;
    pthread_mutex_init(&taken, 0);
    pthread_mutex_init(&lock, 0);
    pthread_cond_init(&begun, 0);
}

/* Threads that take no signal: those are for who called. */
static void start_threads(int64_t wanted) {
    static int is_told;
    if (!is_told) is_told = !pthread_atfork(0, 0, forget_threads);
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes)) return;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigset_t every, before;
    sigfillset(&every);
    pthread_sigmask(SIG_SETMASK, &every, &before);
    pthread_t thread;
    while (num_started < wanted &&
           !pthread_create(&thread, &attributes, serve, (void *)(intptr_t)num_started))
        num_started++;
    pthread_sigmask(SIG_SETMASK, &before, 0);
    pthread_attr_destroy(&attributes);
}

/* `function` on one call in up to so many threads, this one among them; it ends when nothing is
   left to do in any of them. The form is that of OpenMP's own call. */
API void vox_parallel(void (*function)(void *), void *call, unsigned num_threads, unsigned flags) {
    (void)flags;
    if (num_threads < 2 || pthread_mutex_trylock(&taken)) {
        function(call);
        return;
    }
    const int64_t wanted = least(num_threads, MOST_THREADS) - 1;
    if (num_started < wanted) start_threads(wanted);
    pthread_mutex_lock(&lock);
    num_wanted = wanted;
    work = function;
    argument = call;
    __atomic_fetch_add(&num_calls, 1, __ATOMIC_RELAXED);
    pthread_cond_broadcast(&begun);
    pthread_mutex_unlock(&lock);
    function(call);
    pthread_mutex_lock(&lock);
    work = 0;
    pthread_mutex_unlock(&lock);
    for (int i = 0; __atomic_load_n(&num_at_work, __ATOMIC_ACQUIRE); i++)
        i < SPINS ? __builtin_ia32_pause() : (void)sched_yield();
    pthread_mutex_unlock(&taken);
}
#else
API void vox_parallel(void (*function)(void *), void *call, unsigned num_threads, unsigned flags) {
    (void)num_threads;
    (void)flags;
    function(call);
}
#endif
