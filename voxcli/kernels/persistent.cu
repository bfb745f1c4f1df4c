// A whole solve of a small diffusion transformer (1024 wide, up to 22 tokens) in one kernel; with
// ENCODER the layers once, over a token of its own and the patch, of which the first one's output
// is kept.
//
// 128 blocks, one a multiprocessor and all there at once, in 16 teams of 8. Every block owns a
// fixed slice of all weights, packed by `persistent.py` in the order in which it is read. A
// producer warp streams the slices through a ring in shared memory and never waits for activations:
// weights of later products arrive while blocks wait for each other.
//
// A layer, for block `rank` of team `c`:
//   QKV      16 features of query head c and 4 of keys or values, over all inputs
//   output   attention of heads 2 rank and 2 rank + 1, then 64 features of the team x K slice
//            `rank`
//   gate/up  32 + 32 features of the block, over all inputs
//   down     64 features of the team x K slice `rank`
// A sum over K slices goes to the block of the team that owns the features: it keeps the residual.
// After the layers every block computes the velocity, guidance and the solver's step for itself.
//
// Blocks talk through L2 in words that are written at once. The lowest bit of a word says whether
// it is of this turn or of the one before: whoever reads polls the data itself, and there are no
// counters, fences or barriers between blocks. A word is written again only after all have read
// it, because what is written then depends on something that each of them sent later.
// RMSNorm's weight is folded into the products; its row factor is applied to their results.
//
// Rows: 24, of them 12 each for the conditional and the unconditional half: two of mu, time, four
// of the condition, four of the patch, and one that is padding.

constexpr int TEAM = 8, D = 1024, HALF = 12, PATCH = 4, LATENT = 64;
constexpr int POSITIONS = ENCODER ? 1 + PATCH : 3 + 2 * PATCH;
constexpr int FIRST = POSITIONS - PATCH;  // of the patch's positions
constexpr int KC = 128, STEPS = KC / 16;  // inputs of a chunk of 64 features, products over them
constexpr int STAGES = 10, CHUNK = 128 * KC;  // of the ring; bytes
constexpr int AHEAD = 3;   // chunks that are brought to L2 before they are read from there
constexpr int CORE = 384;  // bytes of 8 features of 24 rows
constexpr int QKV_FEATURES = 20, QKV_BYTES = QKV_FEATURES * 4 * KC,
              LAYER = 264 * 1024;  // of a block; bytes a layer and block
constexpr int CONSUMERS = 256;     // two warpgroups; then a warp for weights
constexpr int BLOCKS = 128;
constexpr int QKV = 512 / KC, OUTPUT = 256 / KC, GATE_UP = D / KC, DOWN = 512 / KC;  // chunks
constexpr int LAYER_CHUNKS = QKV + OUTPUT + GATE_UP + DOWN;
constexpr int ACTS = 49152, PARTS = 6144;
// queries, keys and values in shared memory: bytes of a row, and where they are
constexpr int HEAD_ROW = 320, Q_AT = 12288, K_AT = Q_AT + 48 * HEAD_ROW,
              V_AT = K_AT + 24 * HEAD_ROW;

struct Params {
  const u8* weights;      // [layers][BLOCKS][LAYER]
  const u8* out_weights;  // [8][CHUNK]
  const float2* turns;    // [HALF][64] cos, sin
  const u16 *in_weight, *in_bias, *cond_weight, *cond_bias,
      *out_bias;                       // [D][64], [D], the same, [64]
  const u16* times;                    // [evaluations][D]
  const float* sizes;                  // [evaluations]
  const u16 *noise, *mu, *cond;        // [4][64], [2][D], [4][64]
  const float* cfg;                    // [1], or null: no guidance
  const u16* norm;                     // [D], of the encoder, whose token of its own is in `mu`
  u16* out;                            // [4][64], of the encoder [D]
  u8 *x_qkv, *x_mlp, *x_out, *hidden;  // 128 cores each, hidden 512
  u8 *q, *kv;                    // words [16][24][16]; [2] of keys [24][16] and values [128][3]
  u64 *sums_output, *sums_down;  // [BLOCKS][8 sources][96]
  u32* state;                    // bits of the last turn
  int layers, evaluations, in_flight;
  float eps;
};
static_assert(sizeof(Params) == PARAMS_BYTES, "persistent.py says otherwise");
static_assert(STAGES * CHUNK + ACTS + 2 * PARTS + 4 * (8 * 24 + 32 + 16 + 256) + 16 * STAGES ==
                  SHARED_BYTES,
              "persistent.py says otherwise");

__device__ __forceinline__ float wide(u16 v) { return __uint_as_float((u32)v << 16); }

// --- weights ----------------------------------------------------------------------------------
__device__ __forceinline__ void copy_in(u32 to, const void* from, int bytes, u32 bar, u64 policy) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], "
      "[%1], %2, [%3], %4;" ::"r"(to),
      "l"(from), "r"(bytes), "r"(bar), "l"(policy)
      : "memory");
}

__device__ __forceinline__ void to_cache(const void* from, int bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
}

// --- words between blocks -----------------------------------------------------------------------
__device__ __forceinline__ uint4 load_word(const u8* from) {
  u64 low, high;
  asm volatile("{.reg .b128 q; ld.relaxed.gpu.global.b128 q, [%2]; mov.b128 {%0, %1}, q;}"
               : "=l"(low), "=l"(high)
               : "l"(from)
               : "memory");
  return make_uint4((u32)low, (u32)(low >> 32), (u32)high, (u32)(high >> 32));
}
// Two numbers in bf16 whose first has the turn as its lowest bit, rounded to the others.
__device__ __forceinline__ u32 with_turn(u32 pair, u32 turn) {
  const u32 up =
      (pair & 0x7F80) == 0x7F80 ? 0 : pair & pair >> 1 & 1;  // what is no number stays none
  return (pair + up & ~1u) | turn;
}
__device__ __forceinline__ void store_word(u8* to, uint4 v, u32 turn) {
  const u64 low = with_turn(v.x, turn) | (u64)v.y << 32, high = v.z | (u64)v.w << 32;
  asm volatile(
      "{.reg .b128 q; mov.b128 q, {%1, %2}; st.relaxed.gpu.global.b128 [%0], q;}" ::"l"(to),
      "l"(low), "l"(high)
      : "memory");
}
__device__ __forceinline__ void store_half(void* to, u32 a, u32 b) {
  const u64 word = a | (u64)b << 32;
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(to), "l"(word) : "memory");
}
// N words of a turn; `at(i)` is where the i-th is. Halves may be of two writers, each with its
// turn.
template <bool HALVES, int N, typename At>
__device__ __forceinline__ void receive(uint4 (&v)[N], At at, u32 turn) {
  auto find_missing = [&] {
    u32 missing = 0;
#pragma unroll
    for (int i = 0; i < N; i++)
      missing |= (((v[i].x ^ turn) | (HALVES ? v[i].z ^ turn : 0)) & 1) << i;
    return missing;
  };
#pragma unroll
  for (int i = 0; i < N; i++) v[i] = load_word(at(i));
  u32 missing = find_missing();
  if (missing) {
    const long long since = clock64();
    do {
#pragma unroll
      for (int i = 0; i < N; i++)
        if (missing >> i & 1) v[i] = load_word(at(i));
      missing = find_missing();
      give_up(since);
    } while (missing);
  }
#pragma unroll
  for (int i = 0; i < N; i++) {  // numbers must not depend on the turn
    v[i].x &= ~1u;
    if (HALVES) v[i].z &= ~1u;
  }
}
// The sum of 8 sources, in their order.
__device__ __forceinline__ float2 collect(const u64* from, u32 turn) {
  u64 v[TEAM];
  auto are_there = [&] {
    bool there = true;
#pragma unroll
    for (int i = 0; i < TEAM; i++)
      asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];"
                   : "=l"(v[i])
                   : "l"(from + i * 96)
                   : "memory");
#pragma unroll
    for (int i = 0; i < TEAM; i++) there &= ((u32)v[i] & 1) == turn;
    return there;
  };
  if (!are_there()) {
    const long long since = clock64();
    while (!are_there()) give_up(since);
  }
  float2 sum = make_float2(0, 0);
#pragma unroll
  for (int i = 0; i < TEAM; i++)
    sum.x += __uint_as_float((u32)v[i] & ~1u), sum.y += __uint_as_float((u32)(v[i] >> 32));
  return sum;
}
__device__ __forceinline__ void sync() {
  asm volatile("bar.sync 1, %0;" ::"n"(CONSUMERS) : "memory");
}
// What threads wrote may be read by the tensor cores after the next `sync`.
__device__ __forceinline__ void fence() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// --- products -----------------------------------------------------------------------------------
// Where an operand begins and how far its cores of eight rows lie apart along K, as descriptors
// have it.
__device__ __forceinline__ u32 operand(u32 address, int along_k) {
  return __shfl_sync(~0u, (address >> 4) | (u32)(along_k >> 4) << 16,
                     0);  // in all lanes alike, so that the compiler knows it
}
__device__ __forceinline__ void wgmma(float (&d)[12], u32 a, u32 b, int keep) {
  asm volatile(
      "{.reg .pred p; .reg .b64 x, y; setp.ne.b32 p, %14, 0; mov.b64 x, {%12, 8}; mov.b64 y, {%13, "
      "8};"
      "wgmma.mma_async.sync.aligned.m64n24k16.f32.bf16.bf16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11}, x, y, p, 1, 1, 0, 0;}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
        "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11])
      : "r"(a), "r"(b), "r"(keep));
}
template <int N>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}
// `features` x 16 STEPS of K, times 24 rows. With fewer than 64 features, what lies behind them
// gives sums that nobody uses.
// `d[4 t + 2 h + e]`: feature `16 warp + 8 h + lane / 4` of row `8 t + 2 (lane % 4) + e`.
template <int STEPS>
__device__ __forceinline__ void product(float (&d)[12], u32 a, int features, u32 b, bool is_first) {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  const u32 from_a = operand(a, features * 16), from_b = operand(b, CORE);
#pragma unroll
  for (int step = 0; step < STEPS; step++)
    wgmma(d, from_a + step * features * 2, from_b + step * CORE / 8, !is_first || step);
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// `a`, `b`: feature lane / 4 of rows 2 (lane % 4) and the next. Lanes below 8 get all eight
// features of row `2 (lane % 4) + lane / 4`.
__device__ __forceinline__ uint4 gather(float a, float b, int lane) {
  const bool odd = lane & 4;
  const float other = __shfl_xor_sync(~0u, odd ? a : b, 4);
  const u32 v0 = odd ? pack(other, b) : pack(a, other), v1 = __shfl_xor_sync(~0u, v0, 8);
  return make_uint4(v0, v1, __shfl_xor_sync(~0u, v0, 16), __shfl_xor_sync(~0u, v1, 16));
}
__device__ __forceinline__ float square(u32 pair) {
  const float a = __uint_as_float(pair << 16), b = __uint_as_float(pair & 0xFFFF0000u);
  return a * a + b * b;
}

// Attention in shared memory, two heads of 12 queries a half: warp = head, half, half of the head.
__device__ __forceinline__ void attention(u8* acts, int warp, int lane) {
  const int head = warp & 1, b = (warp >> 1) & 1, part = warp >> 2, n = lane / 4, c = lane % 4;
  const u8* q = acts + Q_AT + (head * 24 + b * HALF) * HEAD_ROW + c * 16;
  const u8* k = acts + K_AT + b * HALF * HEAD_ROW + c * 16;
  const u8* v = acts + V_AT + (part * 64 + n) * 48 + b * 24 + min(c, 2) * 8;
  const int key = (n / 2) * 4 +
                  n % 2;  // the order of keys is free: with this one a lane has keys 4 c to 4 c + 3
  const int q1_at = min(n + 8, HALF - 1) * HEAD_ROW, k0_at = min(key, HALF - 1) * HEAD_ROW,
            k1_at = min(key + 2, HALF - 1) * HEAD_ROW;
  float s0[4] = {}, s1[4] = {}, s2[4] = {}, s3[4] = {};  // four sums: a chain of products is slow
#pragma unroll
  for (int s = 0; s < 4; s++) {
    const uint4 q0 = *(const uint4*)(q + n * HEAD_ROW + s * 64),
                q1 = *(const uint4*)(q + q1_at + s * 64);
    const uint4 k0 = *(const uint4*)(k + k0_at + s * 64), k1 = *(const uint4*)(k + k1_at + s * 64);
    mma(s0, q0.x, q1.x, q0.y, q1.y, k0.x, k0.y);
    mma(s1, q0.x, q1.x, q0.y, q1.y, k1.x, k1.y);
    mma(s2, q0.z, q1.z, q0.w, q1.w, k0.z, k0.w);
    mma(s3, q0.z, q1.z, q0.w, q1.w, k1.z, k1.w);
  }
#pragma unroll
  for (int i = 0; i < 4; i++) s0[i] += s2[i], s1[i] += s3[i];
  float inverse[2];
#pragma unroll
  for (int r = 0; r < 2; r++) {
    float scores[4] = {s0[2 * r], s0[2 * r + 1], s1[2 * r], s1[2 * r + 1]}, top = -1e30f, sum = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) {
      scores[i] = c * 4 + i < POSITIONS ? scores[i] * 0.08838834764f : -1e30f;
      top = fmaxf(top, scores[i]);
    }
    top = fmaxf(top, __shfl_xor_sync(~0u, top, 1));
    top = fmaxf(top, __shfl_xor_sync(~0u, top, 2));
#pragma unroll
    for (int i = 0; i < 4; i++) sum += scores[i] = __expf(scores[i] - top);
    sum += __shfl_xor_sync(~0u, sum, 1);
    sum += __shfl_xor_sync(~0u, sum, 2);
    inverse[r] = __fdividef(1, sum);
    s0[2 * r] = scores[0], s0[2 * r + 1] = scores[1], s1[2 * r] = scores[2],
           s1[2 * r + 1] = scores[3];
  }
  const u32 a0 = pack(s0[0], s0[1]), a1 = pack(s0[2], s0[3]), a2 = pack(s1[0], s1[1]),
            a3 = pack(s1[2], s1[3]);
  const int row = b * HALF + n;
#pragma unroll
  for (int t = 0; t < 8; t++) {
    const uint2 values = *(const uint2*)(v + t * 8 * 48);
    float o[4] = {};
    mma(o, a0, a1, a2, a3, values.x, values.y);
    u8* core = acts + (head * 16 + part * 8 + t) * CORE + c * 4;
    *(u32*)(core + row * 16) = pack(o[0] * inverse[0], o[1] * inverse[0]);
    if (n + 8 < HALF) *(u32*)(core + (row + 8) * 16) = pack(o[2] * inverse[1], o[3] * inverse[1]);
  }
}

extern "C" __global__ void __launch_bounds__(CONSUMERS + 32, 1)
    solve(const __grid_constant__ Params p) {
  extern __shared__ __align__(1024) u8 shared[];
  u8* acts = shared + STAGES * CHUNK;
  float* parts = (float*)(acts + ACTS);         // of QKV, gate/up and the velocity
  float* sum_parts = parts + PARTS / 4;         // of output and down
  float* warp_squares = sum_parts + PARTS / 4;  // [8][24]
  float* projected = warp_squares + 8 * 24;     // [PATCH][8]
  float* dots = projected + 32;                 // [8][2]
  float* latents = dots + 16;                   // [PATCH][LATENT]
  const u32 full = smem(latents + 256), empty = full + 8 * STAGES;
  const int tid = threadIdx.x, lane = tid % 32, rank = blockIdx.x % TEAM, c = blockIdx.x / TEAM;
  const int warp = __shfl_sync(~0u, tid / 32, 0);
  if (tid == 0) {
    for (int i = 0; i < STAGES; i++) bar_init(full + 8 * i, 1), bar_init(empty + 8 * i, 4);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  if (warp == 8) {
    if (lane != 0) return;
    int stage = 0, phase = 1, in_flight = 0, oldest = 0, oldest_phase = 0;
    u64 once, often;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(once));
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(often));
    // `ahead`: what is brought to L2, so that it is there when its turn comes. Little is done
    // between one chunk's arrival and the next one's departure, because that bounds the stream.
    auto bring = [&](const u8* from, int bytes, u64 policy, const u8* ahead) {
      if (in_flight == p.in_flight) {  // more on their way only delay everybody's words
        bar_wait(full + 8 * oldest, oldest_phase);
        if (++oldest == STAGES) oldest = 0, oldest_phase ^= 1;
      } else {
        in_flight++;
      }
      bar_wait(empty + 8 * stage, phase);
      if (ahead) to_cache(ahead, CHUNK);
      bar_expect(full + 8 * stage, bytes);
      copy_in(smem(shared) + stage * CHUNK, from, bytes, full + 8 * stage, policy);
      if (++stage == STAGES) stage = 0, phase ^= 1;
    };
    for (int evaluation = 0; evaluation < p.evaluations; evaluation++) {
      for (int layer = 0; layer < p.layers; layer++) {
        const u8* from = p.weights + ((size_t)layer * BLOCKS + blockIdx.x) * LAYER;
        const u8* next = layer + 1 < p.layers ? from + (size_t)BLOCKS * LAYER : nullptr;
        for (int i = 0; i < LAYER_CHUNKS; i++) {
          const int bytes = i < QKV ? QKV_BYTES : CHUNK, beyond = i + AHEAD - LAYER_CHUNKS;
          const u8* ahead = beyond < 0 ? from + AHEAD * CHUNK : next ? next + beyond * CHUNK : next;
          bring(from, bytes, once, ahead);
          from += bytes;
        }
      }
      if (!ENCODER)
        for (int i = 0; i < GATE_UP; i++) bring(p.out_weights + i * CHUNK, CHUNK, often, nullptr);
    }
    return;
  }
  const int wg = warp / 4, w = warp % 4, f = lane / 4, n0 = (lane % 4) * 2;
  const bool is_owner =
      warp < 3;  // of features 8 rank + f of the team's 64, rows 8 warp + n0 and the next
  const int feature = blockIdx.x * 8 + f,
            own_row = n0 + f % 2;  // `own_row`: of eight, after `gather`
  const u32 acts_at = smem(acts);
  int chunk = 0;  // that comes next
  auto slot = [&](int n) { return smem(shared) + (n % STAGES) * CHUNK; };
  auto wait_chunk = [&](int n) { bar_wait(full + 8 * (n % STAGES), (n / STAGES) & 1); };
  auto release = [&](int n) {
    if (lane == 0) bar_arrive(empty + 8 * (n % STAGES));
  };
  u32 turn = (*(volatile u32*)p.state & 1) ^ 1, out_turn = (*(volatile u32*)p.state >> 1 & 1) ^ 1;

  // All of x to shared memory.
  auto take_x = [&](uint4(&v)[12], const u8* x, u32 turn) {
    const int at = (warp * 384 + lane) * 16;
    receive<false>(v, [&](int i) { return x + at + i * 512; }, turn);
#pragma unroll
    for (int i = 0; i < 12; i++) *(uint4*)(acts + at + i * 512) = v[i];
    fence();
    sync();
  };
  // Sums of squares by warp and row, while products run.
  auto add_squares = [&](const uint4(&v)[12]) {
    float sums[3] = {};
#pragma unroll
    for (int i = 0; i < 12; i++)
      sums[i % 3] += square(v[i].x) + square(v[i].y) + square(v[i].z) + square(v[i].w);
    const int turned = lane / 8 % 3;  // row of word i: 8 ((i + lane / 8) % 3) + lane % 8
#pragma unroll
    for (int t = 0; t < 3; t++) {
      const int i = (t - turned + 3) % 3;
      float sum = i == 0 ? sums[0] : i == 1 ? sums[1] : sums[2];
      sum += __shfl_xor_sync(~0u, sum, 8);
      sum += __shfl_xor_sync(~0u, sum, 16);
      if (lane < 8) warp_squares[warp * 24 + t * 8 + lane] = sum;
    }
  };
  // RMSNorm's factors of a row and the next, after another `sync`.
  auto scales = [&](int row) {
    float2 sum = make_float2(0, 0);
#pragma unroll
    for (int i = 0; i < 8; i++) {
      const float2 part = *(const float2*)(warp_squares + i * 24 + row);
      sum.x += part.x, sum.y += part.y;
    }
    return make_float2(rsqrtf(sum.x / D + p.eps), rsqrtf(sum.y / D + p.eps));
  };
  // 64 features over all of K; each warpgroup has half of the sum.
  auto wide_product = [&](float (&d)[12], const uint4(&v)[12]) {
#pragma unroll
    for (int i = 0; i < GATE_UP / 2; i++) {
      const int n = chunk + 2 * i + wg;
      wait_chunk(n);
      product<STEPS>(d, slot(n), 64, acts_at + (2 * i + wg) * STEPS * 2 * CORE, i == 0);
      if (i == 1) add_squares(v);
      if (i) wgmma_wait<1>(), release(n - 2);
    }
    wgmma_wait<0>();
    release(chunk + GATE_UP - 2 + wg);
    chunk += GATE_UP;
  };
  float residual[2] = {};
  auto publish = [&](u8* x, u32 turn) {
    const uint4 v = gather(residual[0], residual[1], lane);
    if (lane < 8) store_word(x + blockIdx.x * CORE + (warp * 8 + own_row) * 16, v, turn);
  };
  // Both warpgroups' sums to the owners of the features, and there from all K slices to the
  // residual.
  auto reduce = [&](const float (&d)[12], u64* sums) {
    float2* mine = (float2*)sum_parts + wg * 384 + tid % 128;
    const float2* theirs = (float2*)sum_parts + (wg ^ 1) * 384 + tid % 128;
#pragma unroll
    for (int t = 0; t < 3; t++)
      mine[t * 128] =
          wg ? make_float2(d[4 * t], d[4 * t + 1]) : make_float2(d[4 * t + 2], d[4 * t + 3]);
    sync();
    u64* to = sums + ((c * TEAM + 2 * w + wg) * TEAM + rank) * 96 + lane;
#pragma unroll
    for (int t = 0; t < 3; t++) {
      const float2 other = theirs[t * 128];
      const float a = (wg ? d[4 * t + 2] : d[4 * t]) + other.x,
                  b = (wg ? d[4 * t + 3] : d[4 * t + 1]) + other.y;
      store_half(to + t * 32, (__float_as_uint(a) & ~1u) | turn, __float_as_uint(b));
    }
    if (is_owner) {
      const float2 sum = collect(sums + blockIdx.x * TEAM * 96 + tid, turn);
      residual[0] += sum.x, residual[1] += sum.y;
    }
  };

  // Four latent vectors in shared memory to the block's eight features of four tokens.
  const int out_feature = tid / 8 % 8, eighth = tid % 8;
  float in_weight[8];
  auto load_projection = [&](const u16* weight) {
#pragma unroll
    for (int i = 0; i < 8; i++)
      in_weight[i] = wide(weight[(blockIdx.x * 8 + out_feature) * LATENT + eighth * 8 + i]);
  };
  auto project = [&](float value, float bias) {
    latents[tid] = value;
    sync();
    float sum = 0;
#pragma unroll
    for (int i = 0; i < 8; i++) sum += latents[tid / 64 * LATENT + eighth * 8 + i] * in_weight[i];
    sum += __shfl_xor_sync(~0u, sum, 1);
    sum += __shfl_xor_sync(~0u, sum, 2);
    sum += __shfl_xor_sync(~0u, sum, 4);
    if (eighth == 0) projected[tid / 8] = sum + bias;
    sync();
  };
  float x = wide(p.noise[tid]);  // of latent vector tid / 64, in all blocks
  float fixed[2] = {};  // tokens of mu and the condition, or the encoder's own
#if ENCODER
  if (is_owner && warp == 0 && n0 == 0) fixed[0] = wide(p.mu[feature]);
#else
  const float out_bias = wide(p.out_bias[tid % LATENT]), cfg = p.cfg ? *p.cfg : 0;
  load_projection(p.cond_weight);
  project(wide(p.cond[tid]), wide(p.cond_bias[blockIdx.x * 8 + out_feature]));
  if (is_owner)
    for (int e = 0; e < 2; e++) {
      const int row = warp * 8 + n0 + e, half = row / HALF, position = row % HALF;
      if (position < 2 && half == 0) fixed[e] = wide(p.mu[position * D + feature]);
      if (position > 2 && position < FIRST) fixed[e] = projected[(position - 3) * 8 + f];
    }
#endif
  load_projection(p.in_weight);
  const float in_bias = wide(p.in_bias[blockIdx.x * 8 + out_feature]);
  // What a thread has of QKV: tile 3 g + t is features 8 g + f and rows 8 t + n0 and the next. The
  // third group, of keys or values, has four features, so that a warp has two tiles of it.
  const int tile = warp < 6 ? warp : warp * 2 - 6 + lane / 16,
            tile_lane = warp < 6 ? lane : lane % 16;
  const u32 tile_mask = warp < 6 ? ~0u : lane < 16 ? 0xFFFFu : 0xFFFF0000u;
  const int tile_feature = tile_lane / 4, tile_row = tile % 3 * 8 + n0 + tile_feature % 2;
  const int kv_first = blockIdx.x % 32 * 4, kv_at = blockIdx.x % 64 / 32 * 768;
  const bool is_value = warp >= 6 && blockIdx.x >= 64;
  const int turned = warp < 6 ? 16 * rank + 8 * (warp / 3) + tile_feature : kv_first + tile_feature;
  u8* const tile_to = warp < 6 ? p.q + ((c * 24 + tile_row) * 16 + rank * 2 + warp / 3) * 16
                      : is_value
                          ? p.kv + (kv_at + 384 + (kv_first + tile_feature) * 3 + tile % 3) * 16
                          : p.kv + (kv_at + tile_row * 16) * 16 + kv_first * 2;
  float2 turns[2];
#pragma unroll
  for (int e = 0; e < 2; e++) turns[e] = p.turns[(tile % 3 * 8 + n0 + e) % HALF * 64 + turned / 2];
#if !ENCODER
  float time = wide(p.times[feature]), size = p.sizes[0];
#endif

  for (int evaluation = 0; evaluation < p.evaluations; evaluation++) {
    project(x, in_bias);
    if (is_owner) {
#pragma unroll
      for (int e = 0; e < 2; e++) {
        const int row = warp * 8 + n0 + e, position = row % HALF;
        const bool is_patch = position >= FIRST && position < POSITIONS && (!ENCODER || row < HALF);
        residual[e] = is_patch ? projected[(position - FIRST) * 8 + f] : fixed[e];
#if !ENCODER
        if (position == 2) residual[e] = time;
#endif
      }
      publish(p.x_qkv, turn);
    }
    for (int layer = 0; layer < p.layers; layer++) {
      {  // QKV
        float d[12];
        uint4 x_words[12];
        take_x(x_words, p.x_qkv, turn);
#pragma unroll
        for (int i = 0; i < QKV / 2; i++) {
          const int n = chunk + 2 * i + wg;
          wait_chunk(n);
          product<2 * STEPS>(d, slot(n), QKV_FEATURES, acts_at + (2 * i + wg) * STEPS * 4 * CORE,
                             i == 0);
        }
        add_squares(x_words);
        wgmma_wait<0>();
#pragma unroll
        for (int i = 0; i < QKV / 2; i++) release(chunk + 2 * i + wg);
        chunk += QKV;
        float2* part = (float2*)parts + wg * 9 * 32 + lane;
        if (w < 2)
#pragma unroll
          for (int i = 0; i < 6; i++)  // 3 h + t
            if (w == 0 || i < 3)
              part[(6 * w + i) * 32] =
                  make_float2(d[i % 3 * 4 + i / 3 * 2], d[i % 3 * 4 + i / 3 * 2 + 1]);
        sync();
        if (tile < 9) {
          const float2 a = ((float2*)parts)[tile * 32 + tile_lane],
                       b = ((float2*)parts)[(9 + tile) * 32 + tile_lane];
          const float2 by = scales(tile % 3 * 8 + n0);
          float v[2] = {(a.x + b.x) * by.x, (a.y + b.y) * by.y};
          if (is_value) {  // a word: eight rows of one feature
            const u32 pair = pack(v[0], v[1]), next = __shfl_xor_sync(tile_mask, pair, 1);
            const u32 third = __shfl_xor_sync(tile_mask, pair, 2),
                      fourth = __shfl_xor_sync(tile_mask, next, 2);
            if (lane % 4 == 0)
              store_word(tile_to, make_uint4(pair, next, with_turn(third, turn), fourth), turn);
          } else {
#pragma unroll
            for (int e = 0; e < 2; e++) {
              const float other = __shfl_xor_sync(tile_mask, v[e], 4);
              v[e] = v[e] * turns[e].x + (f % 2 ? other : -other) * turns[e].y;
            }
            if (warp < 6) {
              uint4 word = gather(v[0], v[1], lane);
              word.z = with_turn(word.z, turn);
              if (lane < 8) store_word(tile_to, word, turn);
            } else {  // half a word: four features of one row
              const float other = __shfl_xor_sync(tile_mask, f % 2 ? v[0] : v[1], 4);
              const u32 pair = f % 2 ? pack(other, v[1]) : pack(v[0], other),
                        next = __shfl_xor_sync(tile_mask, pair, 8);
              if (lane % 16 < 8) store_half(tile_to, with_turn(pair, turn), next);
            }
          }
        }
      }
      {  // attention and output
        uint4 v[6];
        const u8 *q = p.q + (2 * rank * 24 * 16 + tid) * 16,
                 *kv = p.kv + (rank / 4 * 768 + tid) * 16;
        receive<true>(v, [&](int i) { return i < 3 ? q + i * 4096 : kv + (i - 3) * 4096; }, turn);
#pragma unroll
        for (int i = 0; i < 6; i++) {
          const int word = tid + i % 3 * 256, at = word / 16 * HEAD_ROW + word % 16 * 16;
          *(uint4*)(acts + (i < 3        ? Q_AT + at
                            : word < 384 ? K_AT + at
                                         : V_AT + (word - 384) * 16)) = v[i];
        }
        sync();
        attention(acts, warp, lane);
        fence();
        sync();
        float d[12];
#pragma unroll
        for (int i = 0; i < OUTPUT / 2; i++) {
          const int n = chunk + 2 * i + wg;
          wait_chunk(n);
          product<STEPS>(d, slot(n), 64, acts_at + (2 * i + wg) * STEPS * 2 * CORE, i == 0);
        }
        wgmma_wait<0>();
#pragma unroll
        for (int i = 0; i < OUTPUT / 2; i++) release(chunk + 2 * i + wg);
        chunk += OUTPUT;
        reduce(d, p.sums_output);
        if (is_owner) publish(p.x_mlp, turn);
      }
      {  // gate/up and SwiGLU: of 16 features 8 are gates, then come 8 that they let through
        float d[12];
        uint4 v[12];
        take_x(v, p.x_mlp, turn);
        wide_product(d, v);
        float4* part =
            (float4*)parts + tid % 128;  // the first warpgroup finishes two thirds, the second one
        if (wg == 0) part[0] = make_float4(d[8], d[9], d[10], d[11]);
        else
          part[128] = make_float4(d[0], d[1], d[2], d[3]),
          part[256] = make_float4(d[4], d[5], d[6], d[7]);
        sync();
        u8* to = p.hidden + (blockIdx.x * 4 + w) * CORE + own_row * 16;
        auto finish = [&](int t, float4 a, float4 b) {
          const float gates[2] = {a.x + b.x, a.y + b.y}, ups[2] = {a.z + b.z, a.w + b.w};
          const float2 by = scales(t * 8 + n0);
          float h[2];
#pragma unroll
          for (int e = 0; e < 2; e++) {
            const float scale = e ? by.y : by.x, gate = gates[e] * scale;
            h[e] = __fdividef(gate, 1 + __expf(-gate)) * ups[e] * scale;
          }
          const uint4 word = gather(h[0], h[1], lane);
          if (lane < 8) store_word(to + t * 128, word, turn);
        };
        if (wg == 0) {
          finish(0, make_float4(d[0], d[1], d[2], d[3]), part[128]);
          finish(1, make_float4(d[4], d[5], d[6], d[7]), part[256]);
        } else finish(2, make_float4(d[8], d[9], d[10], d[11]), part[0]);
      }
      {  // down
        uint4 v[6];
        const int at = (warp * 192 + lane) * 16;
        const u8* from = p.hidden + rank * 64 * CORE + at;
        receive<false>(v, [&](int i) { return from + i * 512; }, turn);
#pragma unroll
        for (int i = 0; i < 6; i++) *(uint4*)(acts + at + i * 512) = v[i];
        fence();
        sync();
        float d[12];
#pragma unroll
        for (int i = 0; i < DOWN / 2; i++) {
          const int n = chunk + 2 * i + wg;
          wait_chunk(n);
          product<STEPS>(d, slot(n), 64, acts_at + (2 * i + wg) * STEPS * 2 * CORE, i == 0);
        }
        wgmma_wait<0>();
#pragma unroll
        for (int i = 0; i < DOWN / 2; i++) release(chunk + 2 * i + wg);
        chunk += DOWN;
        reduce(d, p.sums_down);
        turn ^= 1;
        if (is_owner) {
          if (layer + 1 < p.layers) publish(p.x_qkv, turn);
          else publish(p.x_out, out_turn);
        }
      }
    }
#if ENCODER
    if (blockIdx.x == 0) {  // the norm of the first row
      uint4 words[12];
      take_x(words, p.x_out, out_turn);
      add_squares(words);
      sync();
      const uint2 v = *(const uint2*)(acts + tid / 2 * CORE + tid % 2 * 8),
                  weight = *(const uint2*)(p.norm + tid * 4);
      const float scale = scales(0).x;
      auto scaled = [&](u32 pair, u32 by) {
        return pack(__uint_as_float(pair << 16) * scale * __uint_as_float(by << 16),
                    __uint_as_float(pair & 0xFFFF0000u) * scale *
                        __uint_as_float(by & 0xFFFF0000u));
      };
      *(uint2*)(p.out + tid * 4) = make_uint2(scaled(v.x, weight.x), scaled(v.y, weight.y));
    }
    out_turn ^= 1;
#else
    {  // velocity, guidance and the solver's step, in all blocks alike
      float d[12];
      uint4 words[12];
      take_x(words, p.x_out, out_turn);
      out_turn ^= 1;
      wide_product(d, words);
      constexpr int ROW = 72;  // numbers of a row; [warpgroup][half][PATCH][ROW]
#pragma unroll
      for (int i = 0; i < 12; i++) {
        const int row = i / 4 * 8 + n0 + i % 2, position = row % HALF;
        if (position >= FIRST && position < POSITIONS)
          parts[((wg * 2 + row / HALF) * PATCH + position - FIRST) * ROW + 16 * w + i / 2 % 2 * 8 +
                f] = d[i];
      }
      sync();
      const int at = tid / LATENT * ROW + tid % LATENT, half = PATCH * ROW,
                row = FIRST + tid / LATENT;
      auto scale = [&](int row) { return row % 2 ? scales(row - 1).y : scales(row).x; };
      float v = (parts[at] + parts[2 * half + at]) * scale(row) + out_bias;
      if (p.cfg) {
        const float negative =
            (parts[half + at] + parts[3 * half + at]) * scale(HALF + row) + out_bias;
        float dot = v * negative, norm = negative * negative;
#pragma unroll
        for (int i = 1; i < 32; i *= 2)
          dot += __shfl_xor_sync(~0u, dot, i), norm += __shfl_xor_sync(~0u, norm, i);
        if (lane == 0) dots[warp * 2] = dot, dots[warp * 2 + 1] = norm;
        sync();
        dot = 0, norm = 0;
#pragma unroll
        for (int i = 0; i < 8; i++) dot += dots[2 * i], norm += dots[2 * i + 1];
        const float scaled = negative * (dot / (norm + 1e-8f));
        v = scaled + cfg * (v - scaled);
      }
      x -= size * v;
      if (evaluation + 1 < p.evaluations) {
        time = wide(p.times[(evaluation + 1) * D + feature]);
        size = p.sizes[evaluation + 1];
      }
    }
#endif
  }
  if (blockIdx.x == 0) {  // all blocks have read the state: what came here depends on all of them
    if (!ENCODER) p.out[tid] = (u16)pack(x, 0);
    if (tid == 0) *(volatile u32*)p.state = (turn ^ 1) | (out_turn ^ 1) << 1;
  }
}
