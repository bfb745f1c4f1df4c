// A product of many rows with a weight, `X W^T`, by the tensor cores and the copy engine.
//
// A tile of the result is `64 DEEP WARPGROUPS` features times `ROWS` rows: features are the first
// axis of the tensor cores' product, which is fixed, and rows the second, which may be any multiple
// of 8, so that no size of batch wastes many. A producer keeps STAGES slices of 64 inputs
// of both operands on their way; each warpgroup multiplies `64 DEEP` features.
//
// The sum may be cut into parts, which are added up elsewhere. Blocks stay and take one tile after
// the other. `dense.py` writes `wgmma` for the size in front of this.

constexpr int FEATURES = 64 * DEEP * WARPGROUPS;
constexpr int SLICE = 128;  // bytes of a row or a feature in a stage
constexpr int WEIGHT_BYTES = FEATURES * SLICE, ROW_BYTES = ROWS * SLICE,
              STAGE = WEIGHT_BYTES + ROW_BYTES;
constexpr int CONSUMERS = 128 * WARPGROUPS;
static_assert(ROWS % 16 == 0, "rows are stored by pairs of eight");

struct alignas(64) Map {
  u64 words[16];
};
struct Params {
  Map weights, rows;
  u16* out;                          // [parts][num_rows][num_outputs]
  int num_rows, num_outputs;         // outputs: half of the features with SwiGLU
  int slices;                        // of a part
  int row_tiles, feature_tiles, parts;
};
static_assert(sizeof(Params) == PARAMS_BYTES, "as dense.py has it");

__device__ __forceinline__ void copy_2d(u32 to, const Map* map, int x, int y, u32 bar) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, "
      "%4}], [%2];" ::"r"(to),
      "l"(map), "r"(bar), "r"(x), "r"(y)
      : "memory");
}
// Of a weight with gates and what they let through: eight of each by turns.
__device__ __forceinline__ void copy_4d(u32 to, const Map* map, int x, int group, u32 bar) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, "
      "%5, %5, %4}], [%2];" ::"r"(to),
      "l"(map), "r"(bar), "r"(x), "r"(group), "r"(0)
      : "memory");
}
// Half of the calls of the special-function unit that an exponential and a division take.
__device__ __forceinline__ float silu(float x) {
  float t;
  asm("tanh.approx.f32 %0, %1;" : "=f"(t) : "f"(0.5f * x));
  return 0.5f * x * t + 0.5f * x;
}
// An operand whose rows of 128 bytes are swizzled in blocks of eight.
__device__ __forceinline__ u64 operand(u32 address) {
  return (u64)(address >> 4 & 0x3FFF) | (u64)1 << 16 | (u64)64 << 32 | (u64)1 << 62;
}

struct Tile {
  int part, feature, row;  // the first ones
};

extern "C" __global__ void __launch_bounds__(CONSUMERS + PRODUCERS, 1)
    multiply(const __grid_constant__ Params p) {
  extern __shared__ __align__(1024) u8 shared[];
  const u32 stages = smem(shared), full = stages + STAGES * STAGE, empty = full + 8 * STAGES;
  const int tid = threadIdx.x, lane = tid % 32, warp = __shfl_sync(~0u, tid / 32, 0);
  if (tid == 0) {
    for (int i = 0; i < STAGES; i++)
      bar_init(full + 8 * i, 1), bar_init(empty + 8 * i, 4 * WARPGROUPS);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  const int tiles = p.row_tiles * p.feature_tiles * p.parts;
  // tiles that share a weight follow each other, so that it comes from memory once
  auto tile = [&](int t) {
    const int row = t % p.row_tiles, rest = t / p.row_tiles;
    const int feature = rest % p.feature_tiles, part = rest / p.feature_tiles;
    return Tile{part, feature * FEATURES, row * ROWS};
  };
  if (warp >= 4 * WARPGROUPS) {
#if CONSUMER_REGISTERS
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
#endif
    if (tid == CONSUMERS) {
      auto bring_weight = [&](int stage, const Tile& at, int slice) {
        const u32 to = stages + stage * STAGE, bar = full + 8 * stage;
        const int x = (at.part * p.slices + slice) * (SLICE / 2);
        bar_expect(bar, STAGE);
        if (SWIGLU) copy_4d(to, &p.weights, x, at.feature / 16, bar);
        else copy_2d(to, &p.weights, x, at.feature, bar);
      };
      auto bring_rows = [&](int stage, const Tile& at, int slice) {
        const int x = (at.part * p.slices + slice) * (SLICE / 2);
        copy_2d(stages + stage * STAGE + WEIGHT_BYTES, &p.rows, x, at.row, full + 8 * stage);
      };
      // weights are read by nobody's leave: the first ones are on their way before the kernel in
      // front has ended
      const int early = p.slices < STAGES ? p.slices : STAGES;
      int stage = 0, phase = 1, done = 0;
      for (int t = blockIdx.x; t < tiles; t += gridDim.x) {
        const Tile at = tile(t);
        if (t == blockIdx.x) {
          for (int i = 0; i < early; i++) bring_weight(i, at, i);
          asm volatile("griddepcontrol.wait;" ::: "memory");
        }
        for (int slice = 0; slice < p.slices; slice++, done++) {
          if (done >= early) {
            bar_wait(empty + 8 * stage, phase);
            bring_weight(stage, at, slice);
          }
          bring_rows(stage, at, slice);
          if (++stage == STAGES) stage = 0, phase ^= 1;
        }
      }
    }
  } else {
#if CONSUMER_REGISTERS
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(CONSUMER_REGISTERS));
#endif
    const int wg = warp / 4, g = lane / 4, c = lane % 4;
    int stage = 0, phase = 0;
    auto release = [&](int slot) {
      if (lane == 0) bar_arrive(empty + 8 * slot);
    };
    auto finish = [&](float(&d)[ROWS / 2], const Tile& at, int sixteen) {
      const int output = SWIGLU ? sixteen / 2 : sixteen;
      u16* out = p.out + (size_t)at.part * p.num_rows * p.num_outputs + output;
      const bool odd = c & 1;
      if (SWIGLU) {  // eight features of 16 rows
#pragma unroll
        for (int j = 0; j < ROWS / 8; j++)
#pragma unroll
          for (int e = 0; e < 2; e++) {
            const float gate = d[4 * j + e];
            d[4 * j + e] = silu(gate) * d[4 * j + 2 + e];
          }
#pragma unroll
        for (int j = 0; j < ROWS / 8; j += 2) {
          const u32 low = transposed(pack(d[4 * j], d[4 * j + 1])),
                    high = transposed(pack(d[4 * j + 4], d[4 * j + 5]));
          const u32 other = __shfl_xor_sync(~0u, odd ? low : high, 1);
          const uint2 v = odd ? make_uint2(other, high) : make_uint2(low, other);
          const int row = at.row + 8 * j + 8 * odd + g;
          if (row < p.num_rows && output < p.num_outputs)
            *(uint2*)(out + (size_t)row * p.num_outputs + c / 2 * 4) = v;
        }
      } else {  // sixteen features of eight rows
#pragma unroll
        for (int j = 0; j < ROWS / 8; j++) {
          const u32 low = transposed(pack(d[4 * j], d[4 * j + 1])),
                    high = transposed(pack(d[4 * j + 2], d[4 * j + 3]));
          const u32 other = __shfl_xor_sync(~0u, odd ? low : high, 1);
          const uint2 v = odd ? make_uint2(other, high) : make_uint2(low, other);
          const int row = at.row + 8 * j + g, at_feature = 8 * odd + c / 2 * 4;
          if (row < p.num_rows && output + at_feature < p.num_outputs)
            *(uint2*)(out + (size_t)row * p.num_outputs + at_feature) = v;
        }
      }
    };
    for (int t = blockIdx.x; t < tiles; t += gridDim.x) {
      const Tile at = tile(t);
      float sums[DEEP][ROWS / 2];
      int before = 0;
      for (int slice = 0; slice < p.slices; slice++) {
        bar_wait(full + 8 * stage, phase);
        const u64 a = operand(stages + stage * STAGE + wg * DEEP * 64 * SLICE),
                  b = operand(stages + stage * STAGE + WEIGHT_BYTES);
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int k = 0; k < 4; k++)
#pragma unroll
          for (int i = 0; i < DEEP; i++)
            wgmma(sums[i], a + 2 * k + i * (64 * SLICE / 16), b + 2 * k, slice > 0 || k > 0);
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        if (slice > 0) {
          asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
          release(before);
        }
        before = stage;
        if (++stage == STAGES) stage = 0, phase ^= 1;
      }
      asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
      release(before);

      // d[4 j + 2 h + e]: feature g + 8 h of the warp's sixteen, row 8 j + 2 c + e
#pragma unroll
      for (int i = 0; i < DEEP; i++)
        finish(sums[i], at, at.feature + (wg * DEEP + i) * 64 + warp % 4 * 16);
    }
  }
}
