// One step of backward induction on the device, and the little around it. Compiled when it is first used, with
//   PARTS    values of one policy that are carried together: the reward and K constraints
//   LANES    policies that one pass over all rows finds, each for weights of its own
//   GROUP    lanes that one thread carries
//   WIDTH    stored transitions of every row where all have as many (the loop is then unrolled), 0 where they differ
//   BYTES    of the smallest unsigned type that holds an action: 1, 2 or 4
// float64 throughout, and never contracted to fused multiply-adds (--fmad=false): every sum is the one that the CPU
// forms, in its order. No thread waits for another, so that a C++ compiler makes of this file what the tests run on a CPU.
//
// Layout. A batch is `systems` systems of `states` states each; one large system is a batch of one. Rows are kept in chunks:
// 32 neighbouring states and one action are one chunk, and the j-th transitions of its rows lie side by side, so that a
// warp reads whole lines of memory. Chunk (slice * A + a) begins at offset[chunk]; short rows are filled up with
// probability 0. A uniform row is one transition to the number `states`, whose "value" is the mean of all.
//   values     [systems][states + 1][LANES][PARTS]
//   utility    [systems][1 or H][A][states][PARTS]
//   actions    [slots][systems][H][states]
//   slot       [systems][LANES] where a policy is written or read; -1: the lane is idle
// The strides of rows, utilities and starts are 0 where all systems of a batch share them.

#ifdef __CUDACC__
#define FIRST (blockIdx.x * (long long)blockDim.x + threadIdx.x)
#define STRIDE (gridDim.x * (long long)blockDim.x)
#else  // plain C++: one "thread" does everything
#include <cmath>
using std::fma;
#define __global__
#define __device__
#define __ldcs(place) (*(place))
#define FIRST 0LL
#define STRIDE 1LL
#endif
#define WARP 32

typedef long long wide;
#if BYTES == 1
typedef unsigned char ACTION;
#elif BYTES == 2
typedef unsigned short ACTION;
#else
typedef unsigned int ACTION;
#endif

struct alignas(PARTS % 2 ? 8 : 16) Parts {
    double part[PARTS];
};

struct alignas(PARTS * LANES % 2 ? 8 : 16) Values {
    Parts lane[LANES];
};

// A thread is GROUP lanes of one state. Neighbouring threads are the other lanes of that state: they read the same rows,
// and side by side the values of the same successor.
#define STEP_ARGUMENTS                                                                                                   \
    const wide *offset, const unsigned *successor, const double *probability, wide row_first, wide row_stride,          \
        const Parts *utility, wide utility_first, wide utility_stride, const Values *later, Values *now,                 \
        ACTION *actions, wide action_first, wide action_stride, const int *slot, wide systems, wide states, wide A

#define EACH_THREAD for (wide i = FIRST; i < systems * states * (LANES / GROUP); i += STRIDE)

#define HERE                                                                                                             \
    const wide first = i % (LANES / GROUP) * GROUP, at_state = i / (LANES / GROUP);                                      \
    const wide system = systems == 1 ? 0 : at_state / states, s = at_state - system * states;                            \
    const int *own = slot + system * LANES + first;                                                                      \
    if (idle(own)) continue;                                                                                             \
    const wide chunk = system * row_stride + row_first + s / WARP * A;                                                   \
    const Parts *here = utility + system * utility_stride + utility_first + s;                                           \
    const Values *after = later + system * (states + 1);                                                                 \
    Values &result = now[system * (states + 1) + s]

#define VALUES_OF(a, fused)                                                                                                \
    row_values<fused>(offset, successor, probability, chunk + (a), s % WARP, here[(a) * states], after, first)
#define ACTION_OF(g) actions[(own[g] * systems + system) * action_stride + action_first + s]

struct alignas(PARTS * GROUP % 2 ? 8 : 16) Group {
    Parts lane[GROUP];
};

__device__ inline bool idle(const int *own) {
    for (int g = 0; g < GROUP; g++)
        if (own[g] >= 0) return false;
    return true;
}

// Reward and constraint values of an action: its utilities, and what its row expects of the next step. Rows are read once
// per step and pass by the cache (__ldcs), which is for the values: those are read in no order. Products and sums are fused
// where the CPU fuses them.
template <bool FUSED> __device__ inline Group row_values(
    const wide *offset, const unsigned *successor, const double *probability, wide chunk, wide place, Parts utility,
    const Values *later, wide first
) {
    Group total;
#pragma unroll
    for (int g = 0; g < GROUP; g++) total.lane[g] = utility;
#if WIDTH > 0
    wide at = chunk * (WIDTH * WARP) + place;
#pragma unroll
    for (int j = 0; j < WIDTH; j++, at += WARP) {
#else
    const wide end = offset[chunk + 1];
    for (wide at = offset[chunk] + place; at < end; at += WARP) {
#endif
        const double p = __ldcs(probability + at);
#if PARTS % 2  // one lane is no multiple of 16 bytes, the most that is read at once; two are
        const Group read = *(const Group *)(later[__ldcs(successor + at)].lane + first);
        const Parts *next = read.lane;
#else
        const Parts *next = later[__ldcs(successor + at)].lane + first;
#endif
#pragma unroll
        for (int g = 0; g < GROUP; g++) {
            const Parts value = next[g];
#pragma unroll
            for (int k = 0; k < PARTS; k++) {
                double &sum = total.lane[g].part[k];
                sum = FUSED ? fma(p, value.part[k], sum) : sum + p * value.part[k];
            }
        }
    }
    return total;
}

// The step's best actions for weights [systems][LANES][PARTS], and their values.
extern "C" __global__ void greedy(STEP_ARGUMENTS, const double *weights) {
    EACH_THREAD {
        HERE;
        const double *weight = weights + (system * LANES + first) * PARTS;
        Group top;
        double best[GROUP];
        unsigned choice[GROUP];
#pragma unroll 1  // more actions at once take registers, hence threads, and were slower
        for (wide a = 0; a < A; a++) {
            const Group q = VALUES_OF(a, true);
#pragma unroll
            for (int g = 0; g < GROUP; g++) {
                double weighted = weight[g * PARTS] * q.lane[g].part[0];
                for (int k = 1; k < PARTS; k++) weighted += weight[g * PARTS + k] * q.lane[g].part[k];
                if (a == 0 || weighted > best[g]) {
                    best[g] = weighted;
                    choice[g] = (unsigned)a;
                    top.lane[g] = q.lane[g];
                }
            }
        }
#pragma unroll
        for (int g = 0; g < GROUP; g++) {
            result.lane[first + g] = top.lane[g];
            if (own[g] >= 0) ACTION_OF(g) = (ACTION)choice[g];
        }
    }
}

#if PARTS == 2
// In the first lane of every group: of the actions whose utility is within `tie` of the most that is possible, the one
// with the largest reward.
extern "C" __global__ void safest(STEP_ARGUMENTS, double tie) {
    EACH_THREAD {
        HERE;
        double most = 0.0;
        for (wide a = 0; a < A; a++) {
            const double safety = VALUES_OF(a, false).lane[0].part[1];
            if (a == 0 || safety > most) most = safety;
        }
        Parts top;
        wide choice = -1;
        for (wide a = 0; a < A; a++) {
            const Parts q = VALUES_OF(a, false).lane[0];
            if (q.part[1] >= most - tie && (choice < 0 || q.part[0] > top.part[0])) {
                choice = a;
                top = q;
            }
        }
        result.lane[first] = top;
        ACTION_OF(0) = (ACTION)choice;
    }
}
#endif

// The step's values of the policies in the slots.
extern "C" __global__ void follow(STEP_ARGUMENTS) {
    EACH_THREAD {
        HERE;
        for (int g = 0; g < GROUP; g++)
            if (own[g] >= 0) result.lane[first + g] = VALUES_OF(ACTION_OF(g), false).lane[g];
    }
}

// Sums of `count` values of every system, in `parts` parts of which each is added up in order; weighted where there are
// weights, and divided by `divisor`. Several of these, one after the other, are a mean or the value of a start.
extern "C" __global__ void fold(
    const Values *terms, wide term_stride, wide count, const double *weights, wide weight_stride, int weighted,
    Values *sums, wide sum_stride, wide parts, double divisor, wide systems
) {
    for (wide i = FIRST; i < systems * parts * LANES; i += STRIDE) {
        const wide system = i / (parts * LANES), part = i / LANES % parts, l = i % LANES;
        Parts total;
        for (int k = 0; k < PARTS; k++) total.part[k] = 0.0;
        for (wide t = part; t < count; t += parts) {
            const Parts term = terms[system * term_stride + t].lane[l];
            const double weight = weighted ? weights[system * weight_stride + t] : 1.0;
            for (int k = 0; k < PARTS; k++) total.part[k] += weight * term.part[k];
        }
        for (int k = 0; k < PARTS; k++) total.part[k] /= divisor;
        sums[system * sum_stride + part].lane[l] = total;
    }
}

// Rows (group, s, a), group being a step or a step of a system, from where they are stored into chunks.
extern "C" __global__ void pack(
    const unsigned *begin, const unsigned *length, const unsigned *stored, const double *chance, const wide *shift,
    wide groups, wide states, wide A, const wide *offset, unsigned *successor, double *probability
) {
    const wide slices = (states + WARP - 1) / WARP, rows = groups * slices * A * WARP;
    for (wide i = FIRST; i < rows; i += STRIDE) {
        // Neighbouring threads take neighbouring rows as they are stored; the places beyond the last state are filled too.
        const wide a = i % A, place = i / A % WARP, slice = i / (A * WARP) % slices, group = i / (A * WARP * slices);
        const wide chunk = (group * slices + slice) * A + a, s = slice * WARP + place;
        const wide row = (group * states + s) * A + a;
        const wide count = s < states ? length[row] : 0, first = s < states ? begin[row] + shift[group] : 0;
        wide j = 0;
        for (wide at = offset[chunk] + place; at < offset[chunk + 1]; at += WARP, j++) {
            const bool uniform = s < states && count == 0 && j == 0;
            successor[at] = uniform ? (unsigned)states : j < count ? stored[first + j] : 0u;
            probability[at] = uniform ? 1.0 : j < count ? chance[first + j] : 0.0;
        }
    }
}
