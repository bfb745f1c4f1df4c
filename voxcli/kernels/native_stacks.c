/* All layers of few rows in one call, whose products are shared out to threads.

   The threads go through phases side by side, as native_phases.h says. No sum is ever cut, so bits do
   not depend on who did what.

   Letters: as in native_layers.h; R rows, W width of queries, keys and values. */

#include "native_layers.h"
#include "native_phases.h"

#if HAS_TWINS
enum { MOST_LAYERS = 128, PHASES = 10, PARTS = 4 };

/* What the threads of a call share. */
typedef struct {
    int64_t num_threads, num_joined;
    Phase phases[MOST_LAYERS * PHASES];
} Team;

/* Into how many parts `num` things are cut. */
static int64_t parts_of(const Team *team, int64_t num) {
    return team->num_threads > 1 ? least(num, PARTS * team->num_threads) : 1;
}

/* The products of a twin: by panels. */
typedef struct {
    Multiply *multiply;
    int64_t vector;
} Twin;

/* All of a product of R rows. */
ALWAYS_INLINE void multiply_together(
    Twin twin, const Team *team, Phase *phase, const Panels *p, const float *x, float *y,
    int64_t R) {
    const int64_t Q = num_panels(p, twin.vector), num = parts_of(team, Q);
    TAKE(i, phase, num) twin.multiply(p, x, y, R, Q * i / num, Q * (i + 1) / num);
    wait_for(phase, num);
}

/* The same for B times N rows; what stands in columns below `queries` only of M of N. */
ALWAYS_INLINE void project_together(
    Twin twin, const Team *team, Phase *phase, const Panels *p, const float *x, float *y,
    int64_t B, int64_t N, int64_t first, int64_t M, int64_t queries) {
    const int64_t V = num_vectors(p, twin.vector), Q = num_panels(p, twin.vector);
    int64_t border = 0; /* the first panel with a column that all N need */
    while (M < N && twin.vector * (V * (border + 1) / Q) <= queries) border++;
    const int64_t num_all = parts_of(team, Q - border);
    const int64_t num = num_all + (border ? parts_of(team, border) : 0);
    TAKE(i, phase, num) {
        const int64_t j = i - num_all, num_some = num - num_all;
        if (j < 0)
            twin.multiply(
                p, x, y, B * N, border + (Q - border) * i / num_all,
                border + (Q - border) * (i + 1) / num_all);
        for (int64_t b = 0; j >= 0 && b < B; b++)
            twin.multiply(
                p, x + (b * N + first) * p->K, y + (b * N + first) * p->N, M,
                border * j / num_some, border * (j + 1) / num_some);
    }
    wait_for(phase, num);
}

/* Sums and norms of B times M rows; M of x lie side by side, `step` numbers behind those before. */
ALWAYS_INLINE void norm_together(
    int fused, const Team *team, Phase *phase, const Layer *l, const float *x, int64_t step,
    float *sums, const float *weight, float *out, int64_t B, int64_t M) {
    const int64_t R = B * M, D = l->D, num = parts_of(team, R);
    TAKE(i, phase, num)
        for (int64_t r = R * i / num; r < R * (i + 1) / num; r++)
            norm_rows(
                fused, x + r / M * step + r % M * D, sums ? sums + r * D : NULL, weight,
                out + r * D, l->residual_scale, l->eps, 1, D);
    wait_for(phase, num);
}

/* Scratch of all threads, for R rows. */
typedef struct {
    float *qkv, *some, *attended, *mid, *normed, *sums, *inner, *gate_up, *rest;
} Scratch;

static Scratch cut(float *scratch, const Layer *l, int64_t R) {
    const int64_t W = l->qkv.N;
    Scratch s;
    s.qkv = scratch;
    s.some = s.qkv + R * W;
    s.attended = s.some + R * W;
    s.mid = s.attended + R * l->H * l->C;
    s.normed = s.mid + R * l->D;
    s.sums = s.normed + R * l->D;
    s.inner = s.sums + R * l->D;
    s.gate_up = s.inner + R * l->F;
    s.rest = s.gate_up + R * 2 * l->F;
    return s;
}

/* What a layer does behind its attention, to B times M rows. */
ALWAYS_INLINE void finish_together(
    int fused, Twin twin, const Team *team, Phase *phase, const Layer *l, const Scratch *s,
    const float *x, int64_t step, float *out, int64_t B, int64_t M) {
    const int64_t R = B * M, D = l->D, F = l->F, num = parts_of(team, R);
    multiply_together(twin, team, phase++, &l->output, s->attended, s->mid, R);
    norm_together(fused, team, phase++, l, x, step, s->mid, l->mlp_norm, s->normed, B, M);
    multiply_together(twin, team, phase++, &l->gate_up, s->normed, s->gate_up, R);
    TAKE(i, phase, num)
        swiglu_rows(
            fused, s->gate_up + R * i / num * 2 * F, s->inner + R * i / num * F,
            R * (i + 1) / num - R * i / num, F);
    wait_for(phase++, num);
    multiply_together(twin, team, phase++, &l->down, s->inner, s->sums, R);
    norm_together(fused, team, phase, l, s->mid, M * D, s->sums, l->next_norm, out, B, M);
}

/* A call of `vox_local_stack`. */
typedef struct {
    Team team;
    const Layer *layers;
    const float *x;
    float *known;
    const int64_t *changed;
    float *out, *scratch;
    int64_t num_layers, B, N, num_changed, first, M;
} LocalStack;

/* Queries, keys and values of the first layer, from what the last call knew of them. */
ALWAYS_INLINE void update_together(
    int fused, Twin twin, const LocalStack *call, Phase *phase, const Scratch *s) {
    const Layer *l = call->layers;
    const Team *team = &call->team;
    const int64_t N = call->N, B = call->B, D = l->D, W = l->qkv.N;
    const int64_t each = call->changed ? call->num_changed : N, R = B * each;
    const int64_t num = parts_of(team, R);
    TAKE(i, phase, num)
        for (int64_t r = R * i / num; r < R * (i + 1) / num; r++) {
            const int64_t at = call->changed ? call->changed[r % each] : r % each;
            norm_rows(
                fused, call->x + (r / each * N + at) * D, NULL, l->input_norm, s->normed + r * D,
                1.0f, l->eps, 1, D);
        }
    wait_for(phase++, num);
    multiply_together(twin, team, phase++, &l->qkv, s->normed, s->some, R);
    TAKE(b, phase, B) {
        float *known = call->known + b * N * W;
        for (int64_t i = 0; i < each; i++)
            memcpy(
                known + (call->changed ? call->changed[i] : i) * W, s->some + (b * each + i) * W,
                W * sizeof(float));
        memcpy(s->qkv + b * N * W, known, N * W * sizeof(float));
    }
    wait_for(phase, B);
}

ALWAYS_INLINE void local_stack(int fused, Twin twin, LocalStack *call) {
    Team *team = &call->team;
    const int64_t B = call->B, N = call->N, D = call->layers->D;
    const Scratch s = cut(call->scratch, call->layers, B * N);
    const float *x = call->x;
    for (int64_t i = 0; i < call->num_layers; i++) {
        const Layer *l = call->layers + i;
        Phase *phase = team->phases + i * PHASES;
        const int is_last = i == call->num_layers - 1;
        const int64_t first = is_last ? call->first : 0, M = is_last ? call->M : N;
        const int64_t W = l->qkv.N, G = l->G, whole = (N + LANES - 1) / LANES * LANES;
        if (i == 0 && call->known) {
            update_together(fused, twin, call, phase, &s);
        } else {
            if (i == 0)
                norm_together(
                    fused, team, phase, l, x, N * D, NULL, l->input_norm, s.normed, B, N);
            project_together(
                twin, team, phase + 1, &l->qkv, s.normed, s.qkv, B, N, first, M, l->H * l->C);
        }
        phase += 3;
        TAKE(j, phase, B * G) {
            float *keys = s.rest + j * (l->C + N * l->H / G) * whole;
            local_group(
                fused, s.qkv + j / G * N * W, l->rotation, keys, keys + l->C * whole,
                s.attended + j / G * M * l->H * l->C, l->attention_scale, j % G, N, first, M, l->H,
                G, l->C);
        }
        wait_for(phase++, B * G);
        finish_together(
            fused, twin, team, phase, l, &s, x + first * D, N * D, is_last ? call->out : s.normed,
            B, M);
        x = s.sums;
    }
}

/* A call of `vox_causal_stack`; of `cache` the first layer's part. */
typedef struct {
    Team team;
    const Layer *layers;
    Cache cache;
    const float *x;
    float *out, *scratch;
    int64_t num_layers, B, layer_step;
} CausalStack;

ALWAYS_INLINE void causal_stack(int fused, Twin twin, CausalStack *call) {
    Team *team = &call->team;
    Cache cache = call->cache;
    const int64_t B = call->B, D = call->layers->D;
    const int64_t own = __atomic_fetch_add(&team->num_joined, 1, __ATOMIC_RELAXED);
    const Scratch s = cut(call->scratch, call->layers, B);
    float *scores = s.rest + own * ((cache.N + LANES - 1) / LANES * LANES);
    const float *x = call->x;
    for (int64_t i = 0; i < call->num_layers; i++) {
        const Layer *l = call->layers + i;
        Phase *phase = team->phases + i * PHASES;
        const int64_t W = l->qkv.N, G = l->G;
        cache.rotations = l->rotation;
        if (i == 0)
            norm_together(fused, team, phase, l, x, D, NULL, l->input_norm, s.normed, B, 1);
        multiply_together(twin, team, phase + 1, &l->qkv, s.normed, s.qkv, B);
        phase += 2;
        TAKE(b, phase, B) keep_row(fused, s.qkv + b * W, &cache, b);
        wait_for(phase++, B); /* rows may read each other's */
        TAKE(j, phase, B * G)
            attend_group(
                fused, s.qkv + j / G * W, &cache, j / G, j % G, scores,
                s.attended + j / G * l->H * l->C, l->attention_scale);
        wait_for(phase++, B * G);
        const int is_last = i == call->num_layers - 1;
        finish_together(
            fused, twin, team, phase, l, &s, x, D, is_last ? call->out : s.normed, B, 1);
        x = s.sums;
        cache.keys += call->layer_step;
        cache.values += call->layer_step;
    }
}

#define DEFINE_STACKS(twin, target, width)                                                         \
    target static void local_stack_##twin(void *call) {                                            \
        local_stack(1, (Twin){multiply_##twin, width}, call);                                      \
    }                                                                                              \
    target static void causal_stack_##twin(void *call) {                                           \
        causal_stack(1, (Twin){multiply_##twin, width}, call);                                     \
    }
DEFINE_STACKS(avx2, AVX2, 8)
DEFINE_STACKS(avx512, AVX512, 16)

static void begin(Team *team, int64_t num_layers, int64_t num_threads) {
    team->num_threads = num_threads;
    team->num_joined = 0;
    memset(team->phases, 0, num_layers * PHASES * sizeof(Phase));
}

static void run_local(LocalStack *call, Parallel *parallel, int64_t vector, int64_t num_threads) {
    begin(&call->team, call->num_layers, num_threads);
    run_in(parallel, num_threads, vector == 16 ? local_stack_avx512 : local_stack_avx2, call);
}

/* All columns of a product of a few rows, in this thread. */
static void multiply_alone(const Panels *p, const float *x, float *y, int64_t M, int64_t vector) {
    (vector == 16 ? multiply_avx512 : multiply_avx2)(p, x, y, M, 0, num_panels(p, vector));
}

/* LocDiT: what its solver multiplies with besides its layers. */
typedef struct {
    Panels in_proj, cond_proj, out_proj;
} Solver;
#endif

/* `num_layers` layers, no more than MOST_LAYERS and all of one size, over N positions of each row;
   arguments as of `vox_local_layer`, whose M positions are read behind the last layer alone. x:
   [B, N, D]; out: [B, M, D], normed. scratch: for B N rows 2 (H + 2 G) C, H C, 3 D and 3 F numbers;
   for B G pairs C + N H / G times N up to whole LANES. */
API void vox_local_stack(
    const void *layers, const float *x, float *known, const int64_t *changed, float *out,
    float *scratch, Parallel *parallel, int64_t num_layers, int64_t B, int64_t N,
    int64_t num_changed, int64_t first, int64_t M, int64_t vector, int64_t num_threads) {
#if HAS_TWINS
    LocalStack call;
    call.layers = layers;
    call.x = x;
    call.known = known;
    call.changed = changed;
    call.out = out;
    call.scratch = scratch;
    call.num_layers = num_layers;
    call.B = B;
    call.N = N;
    call.num_changed = num_changed;
    call.first = first;
    call.M = M;
    run_local(&call, parallel, vector, num_threads);
#endif
}

/* Euler steps from noise to a patch, without guidance: the tokens of a row are `num_fixed` of mu, a
   time, P of the condition and P of x. noise, cond, out: [B, P, D]; mu: [B, num_fixed, W]; times:
   [num_steps, W]; sizes: [num_steps], how far each step moves against the velocity; changed: the
   num_changed positions that are not the same in each step. scratch: for B N rows, N tokens a row, W
   and (H + 2 G) C numbers; for B P rows 2 W and D; what `vox_local_stack` needs. */
API void vox_solve(
    const void *solver, const void *layers, const float *noise, const float *mu, const float *cond,
    const float *times, const float *sizes, const int64_t *changed, float *out, float *scratch,
    Parallel *parallel, int64_t num_layers, int64_t B, int64_t P, int64_t num_fixed,
    int64_t num_changed, int64_t num_steps, int64_t vector, int64_t num_threads) {
#if HAS_TWINS
    const Solver *s = solver;
    const Layer *l = layers;
    const int64_t W = s->in_proj.N, D = s->in_proj.K, R = B * P;
    const int64_t first = num_fixed + 1 + P, N = first + P;
    float *tokens = scratch, *known = tokens + B * N * W, *read = known + B * N * l->qkv.N;
    float *projected = read + R * W, *velocity = projected + R * W;
    LocalStack call;
    call.layers = l;
    call.x = tokens;
    call.known = known;
    call.out = read;
    call.scratch = velocity + R * D;
    call.num_layers = num_layers;
    call.B = B;
    call.N = N;
    call.num_changed = num_changed;
    call.first = first;
    call.M = P;
    multiply_alone(&s->cond_proj, cond, projected, R, vector);
    for (int64_t b = 0; b < B; b++) {
        float *row = tokens + b * N * W;
        memcpy(row, mu + b * num_fixed * W, num_fixed * W * sizeof(float));
        memcpy(row + (num_fixed + 1) * W, projected + b * P * W, P * W * sizeof(float));
    }
    memcpy(out, noise, R * D * sizeof(float));
    for (int64_t i = 0; i < num_steps; i++) {
        multiply_alone(&s->in_proj, out, projected, R, vector);
        for (int64_t b = 0; b < B; b++) {
            float *row = tokens + b * N * W;
            memcpy(row + num_fixed * W, times + i * W, W * sizeof(float));
            memcpy(row + first * W, projected + b * P * W, P * W * sizeof(float));
        }
        call.changed = i ? changed : NULL;
        run_local(&call, parallel, vector, num_threads);
        multiply_alone(&s->out_proj, read, velocity, R, vector);
        for (int64_t j = 0; j < R * D; j++) out[j] -= sizes[i] * velocity[j];
    }
#endif
}

/* The same over one position of each row; the arguments of the cache as of `vox_causal_layer`, the
   next layer's `layer_step` numbers behind. x, out: [B, D]; scratch: for B rows the same, and for
   each thread N up to whole LANES. */
API void vox_causal_stack(
    const void *layers, const float *x, float *keys, float *values, const int64_t *slots,
    const int64_t *positions, float *out, float *scratch, Parallel *parallel, int64_t num_layers,
    int64_t B, int64_t N, int64_t layer_step, int64_t vector, int64_t num_threads) {
#if HAS_TWINS
    const Layer *l = layers;
    CausalStack call;
    begin(&call.team, num_layers, num_threads);
    call.layers = layers;
    call.cache = (Cache){l->rotation, keys, values, slots, positions, N, l->H, l->G, l->C};
    call.x = x;
    call.out = out;
    call.scratch = scratch;
    call.num_layers = num_layers;
    call.B = B;
    call.layer_step = layer_step;
    run_in(parallel, num_threads, vector == 16 ? causal_stack_avx512 : causal_stack_avx2, &call);
#endif
}
