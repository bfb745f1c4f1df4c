// A residual unit of the AudioVAE decoder in one kernel: Snake, the depthwise filter, Snake, the
// product, the residual. With PRODUCT=0 it ends behind the second Snake, for CHANNELS of each row.
//
// A block has a tile of one stream, or two. It brings the rows and the HALO before them into shared
// memory, through the first Snake. Then every thread runs the filter along a chain of 16 outputs
// that are a dilation apart, so that each number is read and widened once, and keeps them until all
// have read; they take the place of the rows, where the tensor cores find them.
//
// What a stream's first rows need is its context, and its last rows replace that; so one block has
// both the first tile and the last. `residual_unit.py` says what is computed.

constexpr int C = CHANNELS, WARPS = 9, THREADS = 32 * WARPS, TAPS = 7, CHAIN = 16,
              HALO = (TAPS - 1) * 9, OWN = 16 * DEEP, ROWS = OWN * WARPS, PITCH = C + 8,
              WORDS = C / 8, GROUPS = DEEP * C / 64, TABLES = TAPS + 5, AT_ONCE = THREADS / WORDS,
              TURNS = ROWS / AT_ONCE, HALO_TURNS = (HALO - 1) / AT_ONCE + 1;
static_assert(C == 32 || C == 64 || C == 128, "lanes of a row");
static_assert(GROUPS * 64 == DEEP * C, "chains of a thread");

struct Params {
  const u16* x;         // [streams][steps][width]
  u16* out;             // the same; or, with next_scale, [streams][next_length + steps][width]
  u16* context;         // [slots][6 dilation][width], after the first Snake
  const long long* slots;  // [streams]
  const float *scale, *shift;  // [width], of the first Snake
  const float *taps, *bias;    // [TAPS][width], [width]
  const u16* weight;           // [C][C]
  const float *next_scale, *next_shift;  // of the reader's Snake, or null
  const u16* next_context;               // [slots][next_length][width]
  int steps, width, dilation, next_length;
  int stream_blocks;  // from half its tiles on, to all but one, or to the only one
};

__device__ __forceinline__ float low(u32 pair) {
  float f;
  asm("{.reg .f16 l, h; mov.b32 {l, h}, %1; cvt.f32.f16 %0, l;}" : "=f"(f) : "r"(pair));
  return f;
}
__device__ __forceinline__ float high(u32 pair) {
  float f;
  asm("{.reg .f16 l, h; mov.b32 {l, h}, %1; cvt.f32.f16 %0, h;}" : "=f"(f) : "r"(pair));
  return f;
}
__device__ __forceinline__ u32 pack_half(float a, float b) {
  u32 both;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(b), "f"(a));
  return both;
}
// d += a b, of 16 x 16 and 16 x 8 numbers.
__device__ __forceinline__ void multiply(float (&d)[4], const uint4& a, u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}
// Four of 8 x 8 numbers; lane 8 i + r says where row r of the i-th is.
__device__ __forceinline__ uint4 load_matrices(u32 at) {
  uint4 v;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(at)
               : "memory");
  return v;
}
// The same number, of which the compiler does not know that: what is made of it in a loop is made
// there, not kept in registers from before it.
__device__ __forceinline__ int anew(int i) {
  asm volatile("" : "+r"(i));
  return i;
}

// `x + sin(x)^2`
__device__ __forceinline__ float bumped(float x) {
  const float sine = __sinf(x);
  return fmaf(sine, sine, x);
}
__device__ __forceinline__ u32 snake(u32 pair, float scale0, float scale1, float shift0,
                                     float shift1) {
  return pack_half(bumped(fmaf(low(pair), scale0, shift0)),
                   bumped(fmaf(high(pair), scale1, shift1)));
}
// Of eight channels: their scales and shifts, which are C numbers behind each other.
struct Snake {
  float4 scale[2], shift[2];
  __device__ __forceinline__ explicit Snake(const float* tables) {
#pragma unroll
    for (int i = 0; i < 2; i++) {
      scale[i] = *(const float4*)(tables + 4 * i);
      shift[i] = *(const float4*)(tables + C + 4 * i);
    }
  }
  __device__ __forceinline__ uint4 of(const uint4& v) const {
    return make_uint4(snake(v.x, scale[0].x, scale[0].y, shift[0].x, shift[0].y),
                      snake(v.y, scale[0].z, scale[0].w, shift[0].z, shift[0].w),
                      snake(v.z, scale[1].x, scale[1].y, shift[1].x, shift[1].y),
                      snake(v.w, scale[1].z, scale[1].w, shift[1].z, shift[1].w));
  }
};

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    unit(const __grid_constant__ Params p) {
  extern __shared__ __align__(16) u8 memory[];
  u16* const ext = (u16*)memory;                  // [HALO + ROWS][PITCH]
  u16* const weights = ext + (HALO + ROWS) * PITCH;  // [C][PITCH]
  float* const tables = (float*)(weights + PRODUCT * C * PITCH);  // [TABLES][C]
  const float *const scales = tables, *const taps = tables + 2 * C,
              *const biases = tables + (2 + TAPS) * C, *const next = tables + (3 + TAPS) * C;
  int thread = threadIdx.x;
  const int chunks = p.width / C, chunk = blockIdx.x % chunks, block = blockIdx.x / chunks;
  const int first = block % p.stream_blocks, b = block / p.stream_blocks;
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");

  for (int i = thread; i < TABLES * C; i += THREADS) {
    const int c = chunk * C + i % C;
    const int table = i / C;
    const float* from = table == 0            ? p.scale
                        : table == 1          ? p.shift
                        : table < 2 + TAPS    ? p.taps + (table - 2) * p.width
                        : table == 2 + TAPS   ? p.bias
                        : table == 3 + TAPS   ? p.next_scale
                                              : p.next_shift;
    if (from) tables[i] = from[c];
  }
  if (PRODUCT)
    for (int i = thread; i < C * WORDS; i += THREADS) {
      // output 8 c + 2 j + e of 32 is column 2 c + e of the tensor core's j-th product, so that a
      // lane ends with eight neighbouring channels
      const int n = i / WORDS, word = i % WORDS;
      const int row = n / 32 * 32 + n % 8 / 2 * 8 + n % 32 / 8 * 2 + n % 2;
      *(uint4*)(weights + row * PITCH + word * 8) = *(const uint4*)(p.weight + n * C + word * 8);
    }
  asm volatile("griddepcontrol.wait;" ::: "memory");
  __syncthreads();

  const long long slot = p.slots[b];
  const int T = p.steps, D = p.dilation, J = (TAPS - 1) * D, width = p.width;
  const u16* const x = p.x + (long long)b * T * width + chunk * C;
  u16* const context = p.context + slot * J * width + chunk * C;
  const bool is_padded = PRODUCT && p.next_scale;
  u16* out = p.out + (long long)b * T * width + chunk * C;
  if (is_padded) {
    const int words = p.next_length * WORDS;
    out += (long long)b * p.next_length * width;
    if (first == 0)
      for (int i = thread; i < words; i += THREADS)
        ((uint4*)out)[i] = ((const uint4*)(p.next_context + slot * p.next_length * width))[i];
    out += p.next_length * width;
  }

  const int tiles = (T + ROWS - 1) / ROWS;
#pragma unroll 1
  for (int half = 0; half < 2; half++) {
    const int tile = half ? tiles - 1 - first : first;
    if (half) {
      if (tile < p.stream_blocks) break;  // another block's first one, or its own
      __syncthreads();  // before these rows are those of another tile
    }
    thread = anew(thread);
    const int start = tile * ROWS, left = min(ROWS, T - start);
    {  // all are asked for before the first is used
      const int my_row = thread / WORDS, my_channel = thread % WORDS * 8;
      const u16* const before = tile ? x + (start - J) * width : context;
      u16* const to = ext + (HALO + my_row) * PITCH + my_channel;
      uint4 halo[HALO_TURNS];
#pragma unroll
      for (int i = 0; i < HALO_TURNS; i++) {
        const int row = min(my_row + i * AT_ONCE, J - 1);
        halo[i] = *(const uint4*)(before + row * width + my_channel);
      }
      uint4 rows[TURNS];
#pragma unroll
      for (int i = 0; i < TURNS; i++) {
        const int row = my_row + i * AT_ONCE;
        rows[i] = row < left ? *(const uint4*)(x + (start + row) * width + my_channel)
                             : make_uint4(0, 0, 0, 0);
      }
      const Snake in_front(scales + my_channel);
#pragma unroll
      for (int i = 0; i < HALO_TURNS; i++)
        if (my_row + i * AT_ONCE < J)
          *(uint4*)(to + (i * AT_ONCE - J) * PITCH) = tile ? in_front.of(halo[i]) : halo[i];
#pragma unroll
      for (int i = 0; i < TURNS; i++)
        *(uint4*)(to + i * AT_ONCE * PITCH) = in_front.of(rows[i]);
    }
    __syncthreads();

    if (tile + 1 == tiles)  // the context that the next call needs
      for (int i = thread; i < J * WORDS; i += THREADS) {
        const int j = i / WORDS, c = i % WORDS * 8;
        *(uint4*)(context + j * width + c) =
            *(const uint4*)(ext + (HALO + left - J + j) * PITCH + c);
      }
    u32 made[GROUPS][CHAIN];
    int at[GROUPS];
#pragma unroll
    for (int g = 0; g < GROUPS; g++) {
      const int unit = g * THREADS + thread, c = unit % (C / 2) * 2, chain = unit / (C / 2);
      const int begin = chain % D + chain / D * (CHAIN * D);
      at[g] = begin * PITCH + c;
      if (!PRODUCT && begin >= left) continue;
      float2 tap[TAPS], window[TAPS];
#pragma unroll
      for (int j = 0; j < TAPS; j++) tap[j] = *(const float2*)(taps + j * C + c);
      const float2 bias = *(const float2*)(biases + c);
      const u16* from = ext + (HALO + begin - J) * PITCH + c;
#pragma unroll
      for (int j = 0; j < TAPS - 1; j++, from += D * PITCH) {
        const u32 pair = *(const u32*)from;
        window[j] = make_float2(low(pair), high(pair));
      }
#pragma unroll
      for (int k = 0; k < CHAIN; k++, from += D * PITCH) {
        const u32 pair = *(const u32*)from;
        window[(k + TAPS - 1) % TAPS] = make_float2(low(pair), high(pair));
        float2 sum = bias;
#pragma unroll
        for (int j = 0; j < TAPS; j++) {
          const float2 value = window[(k + j) % TAPS];
          sum.x = fmaf(tap[j].x, value.x, sum.x);
          sum.y = fmaf(tap[j].y, value.y, sum.y);
        }
        made[g][k] = pack_half(bumped(sum.x), bumped(sum.y));
        if (!PRODUCT && begin + k * D < left)
          *(u32*)(out + (start + begin + k * D) * width + c) = made[g][k];
      }
    }
    if (!PRODUCT) continue;
    __syncthreads();
    thread = anew(thread);
    const int warp = thread / 32, lane = thread % 32, stride = anew(D * PITCH);
#pragma unroll
    for (int g = 0; g < GROUPS; g++)
#pragma unroll
      for (int k = 0; k < CHAIN; k++)
        *(u32*)(ext + HALO * PITCH + at[g] + k * stride) = made[g][k];
    __syncthreads();

    // sums begin with the residual; lane 4 g + c has rows g and g + 8 of 16
    float sums[DEEP][C / 8][4];
    const int row = warp * OWN + lane / 4, c = lane % 4 * 8;
#pragma unroll
    for (int d = 0; d < 2 * DEEP; d++)
#pragma unroll
      for (int q = 0; q < C / 32; q++) {
        uint4 v = make_uint4(0, 0, 0, 0);
        if (row + 8 * d < left)
          v = *(const uint4*)(x + (start + row + 8 * d) * width + q * 32 + c);
        const u32 words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (int j = 0; j < 4; j++) {
          sums[d / 2][q * 4 + j][d % 2 * 2] = low(words[j]);
          sums[d / 2][q * 4 + j][d % 2 * 2 + 1] = high(words[j]);
        }
      }
    const u32 inner = smem(ext + (HALO + warp * OWN + lane % 16) * PITCH + lane / 16 * 8),
              outer = smem(weights + (lane / 16 * 8 + lane % 8) * PITCH + lane / 8 % 2 * 8);
#pragma unroll
    for (int k = 0; k < C; k += 16) {
      uint4 a[DEEP];
#pragma unroll
      for (int d = 0; d < DEEP; d++) a[d] = load_matrices(inner + (d * 16 * PITCH + k) * 2);
#pragma unroll
      for (int n = 0; n < C / 8; n += 2) {
        const uint4 w = load_matrices(outer + (n * 8 * PITCH + k) * 2);
#pragma unroll
        for (int d = 0; d < DEEP; d++) {
          multiply(sums[d][n], a[d], w.x, w.y);
          multiply(sums[d][n + 1], a[d], w.z, w.w);
        }
      }
    }
#pragma unroll
    for (int q = 0; q < C / 32; q++) {
      const Snake behind(next + q * 32 + c);  // without a reader of no meaning and not used
#pragma unroll
      for (int d = 0; d < 2 * DEEP; d++) {
        u32 words[4];
#pragma unroll
        for (int j = 0; j < 4; j++) {
          const float* sum = sums[d / 2][q * 4 + j] + d % 2 * 2;
          words[j] = pack_half(sum[0], sum[1]);
        }
        uint4 v = make_uint4(words[0], words[1], words[2], words[3]);
        if (is_padded) v = behind.of(v);
        if (row + 8 * d < left)
          *(uint4*)(out + (start + row + 8 * d) * width + q * 32 + c) = v;
      }
    }
  }
}
