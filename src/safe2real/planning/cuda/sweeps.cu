// One step of backward induction on the device, and the little around it. Compiled when it is first used, with
//   PARTS    values of one policy that are carried together: the reward and K constraints
//   LANES    policies that one pass over all rows finds, each for weights of its own
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
//   slot       [systems][LANES] where a policy is written or read; -1: nowhere, and none is computed if all are
// The strides of rows, utilities and starts are 0 where all systems of a batch share them.

#ifdef __CUDACC__
#define FIRST (blockIdx.x * (long long)blockDim.x + threadIdx.x)
#define STRIDE (gridDim.x * (long long)blockDim.x)
#else  // plain C++: one "thread" does everything
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

// Where things are, for one step.
struct Step {
    const wide *offset;
    const unsigned *successor;
    const double *probability;
    wide chunk, thread;    // the first action's chunk, and the place in it
    const Parts *utility;  // of the first action
    const Values *later;
};

#define STEP_ARGUMENTS                                                                                                   \
    const wide *offset, const unsigned *successor, const double *probability, wide row_first, wide row_stride,          \
        const Parts *utility, wide utility_first, wide utility_stride, const Values *later, Values *now,                 \
        ACTION *actions, wide action_first, wide action_stride, const int *slot, wide systems, wide states, wide A

#define STEP                                                                                                             \
    {offset, successor, probability, system * row_stride + row_first + s / WARP * A, s % WARP,                           \
     utility + system * utility_stride + utility_first + s, later + system * (states + 1)}

#define ACTION_OF(lane) actions[(slot[system * LANES + lane] * systems + system) * action_stride + action_first + s]

// `visit(p, t)` for every transition of a row. Rows are read once per step and pass by the cache (__ldcs), which is for
// the values: those are read in no order.
template <class Visit> __device__ inline void each_transition(const Step &step, wide a, Visit visit) {
#if WIDTH > 0
    const wide at = (step.chunk + a) * (WIDTH * WARP) + step.thread;
#pragma unroll
    for (int j = 0; j < WIDTH; j++) visit(__ldcs(step.probability + at + j * WARP), __ldcs(step.successor + at + j * WARP));
#else
    const wide end = step.offset[step.chunk + a + 1];
    for (wide at = step.offset[step.chunk + a] + step.thread; at < end; at += WARP)
        visit(__ldcs(step.probability + at), __ldcs(step.successor + at));
#endif
}

// Reward and constraint values of an action in all lanes: its utilities and what its row expects of the next step.
__device__ inline Values all_lanes(const Step &step, wide states, wide a) {
    Values total;
    const Parts utility = step.utility[a * states];
#pragma unroll
    for (int l = 0; l < LANES; l++) total.lane[l] = utility;
    each_transition(step, a, [&](double p, unsigned t) {
        const Values next = step.later[t];
#pragma unroll
        for (int l = 0; l < LANES; l++)
#pragma unroll
            for (int k = 0; k < PARTS; k++) total.lane[l].part[k] += p * next.lane[l].part[k];
    });
    return total;
}

__device__ inline Parts one_lane(const Step &step, wide states, wide a, int l) {
    Parts total = step.utility[a * states];
    each_transition(step, a, [&](double p, unsigned t) {
        const Parts next = step.later[t].lane[l];
#pragma unroll
        for (int k = 0; k < PARTS; k++) total.part[k] += p * next.part[k];
    });
    return total;
}

__device__ inline bool idle(const int *slot, wide system) {
    for (int l = 0; l < LANES; l++)
        if (slot[system * LANES + l] >= 0) return false;
    return true;
}

// The step's best actions for weights [systems][LANES][PARTS], and their values.
extern "C" __global__ void greedy(STEP_ARGUMENTS, const double *weights) {
    for (wide i = FIRST; i < systems * states; i += STRIDE) {
        const wide system = i / states, s = i - system * states;
        if (idle(slot, system)) continue;
        const Step step = STEP;
        Values top;
        double best[LANES];
        unsigned choice[LANES];
        for (wide a = 0; a < A; a++) {
            const Values q = all_lanes(step, states, a);
#pragma unroll
            for (int l = 0; l < LANES; l++) {
                const double *weight = weights + (system * LANES + l) * PARTS;
                double weighted = weight[0] * q.lane[l].part[0];
                for (int k = 1; k < PARTS; k++) weighted += weight[k] * q.lane[l].part[k];
                if (a == 0 || weighted > best[l]) {
                    best[l] = weighted;
                    choice[l] = (unsigned)a;
                    top.lane[l] = q.lane[l];
                }
            }
        }
        now[system * (states + 1) + s] = top;
#pragma unroll
        for (int l = 0; l < LANES; l++)
            if (slot[system * LANES + l] >= 0) ACTION_OF(l) = (ACTION)choice[l];
    }
}

#if PARTS == 2
// In lane 0: of the actions whose utility is within `tie` of the most that is possible, the one with the largest reward.
extern "C" __global__ void safest(STEP_ARGUMENTS, double tie) {
    for (wide i = FIRST; i < systems * states; i += STRIDE) {
        const wide system = i / states, s = i - system * states;
        if (slot[system * LANES] < 0) continue;
        const Step step = STEP;
        double most = 0.0;
        for (wide a = 0; a < A; a++) {
            const double utility = one_lane(step, states, a, 0).part[1];
            if (a == 0 || utility > most) most = utility;
        }
        Parts top;
        wide choice = -1;
        for (wide a = 0; a < A; a++) {
            const Parts q = one_lane(step, states, a, 0);
            if (q.part[1] >= most - tie && (choice < 0 || q.part[0] > top.part[0])) {
                choice = a;
                top = q;
            }
        }
        now[system * (states + 1) + s].lane[0] = top;
        ACTION_OF(0) = (ACTION)choice;
    }
}
#endif

// The step's values of the policies in the slots.
extern "C" __global__ void follow(STEP_ARGUMENTS) {
    for (wide i = FIRST; i < systems * states; i += STRIDE) {
        const wide system = i / states, s = i - system * states;
        const Step step = STEP;
        for (int l = 0; l < LANES; l++)
            if (slot[system * LANES + l] >= 0)
                now[system * (states + 1) + s].lane[l] = one_lane(step, states, ACTION_OF(l), l);
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
