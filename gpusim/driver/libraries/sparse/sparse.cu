// Products of sparse matrices, sums, dense matrices, vectors and triangular systems. Macros: RUN, which of these functions
// is the kernel; those of `matrix.cuh`, and those below.
#include "../sparse/matrix.cuh"

#ifndef ALONG
#define ALONG 1  // lanes that share a row
#endif
#ifndef ACROSS
#define ACROSS 1  // lanes that take columns side by side
#endif
#ifndef EACH
#define EACH 1  // columns of a lane
#endif
#ifndef BLOCKED
#define BLOCKED 0  // whether elements are blocks
#endif
#ifndef SUMMED
#define SUMMED 0  // whether matrices are added, not multiplied
#endif
#ifndef FILLING
#define FILLING 0  // whether elements are written, not counted
#endif

enum { A = 1, X = 2, Y = 4 };

__device__ Sum alpha_of(const Params &p) { return Sum(wide(given<TS>(p.alpha_at, p.alpha[0], p.alpha[1]))); }
__device__ Sum beta_of(const Params &p) { return Sum(wide(given<TS>(p.beta_at, p.beta[0], p.beta[1]))); }
template <class T> __device__ Sum value(const void *values, i64 at, bool conjugated) {
    auto found = wide(((const T *)values)[at]);
    return Sum(conjugated ? conjugate(found) : found);
}
template <class T> __device__ T *at(const Matrix &of, i64 i, i64 j) {
    return (T *)of.values + of.row * i + of.column * j + of.stride * blockIdx.z;
}
template <class T> __device__ Sum element(const Matrix &of, i64 i, i64 j, bool conjugated = false) {
    return value<T>(at<T>(of, i, j), 0, conjugated);
}
// What becomes of a place in the result.
__device__ void store(const Params &p, Sum sum, Sum beta, TC *to) {
    Sum found = alpha_of(p) * sum;
    narrow(is_zero(beta) ? found : found + beta * Sum(wide(*to)), *to);
}
template <class R> __device__ void add(R *to, R x) { atomicAdd(to, x); }
template <class R> __device__ void add(complex<R> *to, complex<R> x) {
    atomicAdd(&to->re, x.re);
    atomicAdd(&to->im, x.im);
}
template <class R> __device__ R from_lane(R x, int distance) { return __shfl_xor_sync(~0u, x, distance); }
template <class R> __device__ complex<R> from_lane(complex<R> x, int distance) {
    return {from_lane(x.re, distance), from_lane(x.im, distance)};
}
template <class R> __device__ R quotient(R x, R y) { return x / y; }
template <class R> __device__ complex<R> quotient(complex<R> x, complex<R> y) {
    complex<R> z = x * conjugate(y);
    R size = y.re * y.re + y.im * y.im;
    return {z.re / size, z.im / size};
}
// Sum of the lanes that share a row, for each of them.
__device__ Sum shared(Sum x) {
    for (int distance = ALONG * ACROSS / 2; distance >= ACROSS; distance /= 2) x = x + from_lane(x, distance);
    return x;
}

// Y = alpha A X + beta Y, a group of lanes for each row of A.
__device__ void rows(const Params &p) {
    const Matrix a = p.a.of_batch(blockIdx.z, sizeof(TA));
    const i64 block = BLOCKED ? a.block : 1, line = thread() / (ALONG * ACROSS), outer = line / block;
    const int lane = threadIdx.x % (ALONG * ACROSS);
    const i64 column = blockIdx.y * (ACROSS * EACH) + lane % ACROSS;
    Sum sums[EACH];
    for (int t = 0; t < EACH; ++t) sums[t] = Sum(0);
    if (line < p.m) {
        const i64 end = a.start(outer + 1) * block;
        for (i64 e = a.start(outer) * block + lane / ACROSS; e < end; e += ALONG) {
            const i64 place = e / block, along = e % block, k = a.index(place) * block + along;
            const i64 within = BLOCKED ? line % block * a.row + along * a.column : 0;
            const Sum factor = value<TA>(a.values, place * block * block + within, p.conjugated & A);
            for (int t = 0; t < EACH; ++t)
                if (column + t * ACROSS < p.n)
                    sums[t] = sums[t] + factor * element<TB>(p.x, k, column + t * ACROSS, p.conjugated & X);
        }
    }
    const Sum beta = beta_of(p);
    for (int t = 0; t < EACH; ++t) {
        const Sum sum = shared(sums[t]);
        const i64 j = column + t * ACROSS;
        if (lane < ACROSS && line < p.m && j < p.n) store(p, sum, beta, at<TC>(p.y, line, j));
    }
}

// A X, added to the room from element to element, ACROSS lanes for each of A; `finish` has to follow.
__device__ void scatter(const Params &p) {
    const Matrix a = p.a.of_batch(blockIdx.z, sizeof(TA));
    const i64 e = thread() / ACROSS;
    if (e >= a.count) return;
    const i64 line = a.line(e), index = a.index(e), i = p.turned ? index : line, k = p.turned ? line : index;
    const Sum factor = value<TA>(a.values, e, p.conjugated & A);
    Sum *to = (Sum *)p.room + (blockIdx.z * p.m + i) * p.n;
    for (i64 j = threadIdx.x % ACROSS; j < p.n; j += ACROSS)
        add(to + j, factor * element<TB>(p.x, k, j, p.conjugated & X));
}

// Y = alpha R + beta Y, with R in the room; without a room it is 0.
__device__ void finish(const Params &p) {
    const Sum beta = beta_of(p), *sums = (const Sum *)p.room + blockIdx.z * p.m * p.n;
    for (i64 t = thread(); t < p.m * p.n; t += threads())
        store(p, p.room ? sums[t] : Sum(0), beta, at<TC>(p.y, t / p.n, t % p.n));
}
__device__ void zeros(const Params &p) {
    for (i64 t = thread(); t < p.m; t += threads()) ((Sum *)p.room)[t] = Sum(0);
}

// C = alpha X Y + beta C where C has elements, ALONG lanes for each.
__device__ void sampled(const Params &p) {
    const Matrix c = p.c.of_batch(blockIdx.z, sizeof(TC));
    const i64 e = thread() / ALONG;
    Sum sum = Sum(0);
    if (e < c.count) {
        const i64 line = c.line(e), index = c.index(e), i = p.turned ? index : line, j = p.turned ? line : index;
        for (i64 k = threadIdx.x % ALONG; k < p.k; k += ALONG)
            sum = sum + element<TB>(p.x, i, k, p.conjugated & X) * element<TB>(p.y, k, j, p.conjugated & Y);
    }
    sum = shared(sum);
    if (e < c.count && threadIdx.x % ALONG == 0) store(p, sum, beta_of(p), (TC *)c.values + e);
}

// Y = A, where A has elements.
__device__ void to_dense(const Params &p) {
    for (i64 e = thread(); e < p.a.count; e += threads()) {
        const i64 line = p.a.line(e), index = p.a.index(e);
        *at<TA>(p.y, p.turned ? index : line, p.turned ? line : index) = ((const TA *)p.a.values)[e];
    }
}
// How many elements of each of m lines of X are not 0 or, FILLING, C of them, a warp for each line.
__device__ void from_dense(const Params &p) {
    const i64 line = thread() / 32, lane = threadIdx.x % 32;
    if (line >= p.m) return;
    i64 *counts = (i64 *)p.room, place = FILLING ? counts[line] : 0;
    for (i64 start = 0; start < p.n; start += 32) {
        const i64 j = start + lane;
        const bool counts_here = j < p.n && !is_zero(wide(*at<TA>(p.x, line, j)));
        const u32 those = __ballot_sync(~0u, counts_here);
        if (FILLING && counts_here) {
            const i64 e = place + __popc(those & (1u << lane) - 1);
            p.c.indices[e] = II(j + p.c.base);
            ((TA *)p.c.values)[e] = *at<TA>(p.x, line, j);
            if (!p.c.lines) p.c.offsets[e] = IO(line + p.c.base);
        }
        place += __popc(those);
    }
    if (lane == 0 && !FILLING) counts[line] = place;
}

// Inclusive sum over the threads of a block; total: of them all.
__device__ i64 scanned(i64 mine, i64 &total) {
    __shared__ i64 of_warps[32];
    i64 sum = mine, before = 0;
    for (int distance = 1; distance < 32; distance *= 2) {
        const i64 other = __shfl_up_sync(~0u, sum, distance);
        if (threadIdx.x % 32 >= distance) sum += other;
    }
    if (threadIdx.x % 32 == 31) of_warps[threadIdx.x / 32] = sum;
    __syncthreads();
    total = 0;
    for (int warp = 0; warp < blockDim.x / 32; ++warp) {
        if (warp < threadIdx.x / 32) before += of_warps[warp];
        total += of_warps[warp];
    }
    __syncthreads();
    return before + sum;
}
// Where each of m lines begins, from how many elements it has, and behind them how many there are: in the room and, if
// it has lines, in C. One block.
__device__ void offsets(const Params &p) {
    i64 *counts = (i64 *)p.room, running = 0, total;
    for (i64 start = 0; start <= p.m; start += blockDim.x) {
        const i64 line = start + threadIdx.x, mine = line < p.m ? counts[line] : 0;
        const i64 begin = running + scanned(mine, total) - mine;
        if (line <= p.m) counts[line] = begin;
        if (line <= p.m && p.c.lines) p.c.offsets[line] = IO(begin + p.c.base);
        running += total;
    }
}

// What row `row` of the result is summed of: elements of A and B in it (SUMMED) or products, a warp for each row of B.
template <class Use> __device__ void terms(const Params &p, i64 row, Use use) {
    const int first = SUMMED ? threadIdx.x : threadIdx.x / 32, step = SUMMED ? blockDim.x : blockDim.x / 32;
    const i64 end = p.a.start(row + 1);
    for (i64 e = p.a.start(row) + first; e < end; e += step) {
        const Sum factor = FILLING ? value<TA>(p.a.values, e, false) : Sum(0);
        if (SUMMED) {
            use(p.a.index(e), alpha_of(p) * factor);
            continue;
        }
        const i64 k = p.a.index(e), last = p.b.start(k + 1);
        for (i64 f = p.b.start(k) + threadIdx.x % 32; f < last; f += 32)
            use(p.b.index(f), FILLING ? factor * value<TA>(p.b.values, f, false) : Sum(0));
    }
    if (SUMMED)
        for (i64 f = p.b.start(row) + first; f < p.b.start(row + 1); f += step)
            use(p.b.index(f), FILLING ? beta_of(p) * value<TA>(p.b.values, f, false) : Sum(0));
}
// How many elements each row of C = A B or C = alpha A + beta B has or, FILLING, these elements, whose values are sums.
// A block marks columns of a row in a map of bits, by which they are in order and each finds its place. Of many columns it
// takes those from the first that is left on, as many as the map has, and so on.
constexpr int WORDS = 1024;
__device__ void merge(const Params &p) {
    __shared__ u32 marks[WORDS], before[WORDS];
    __shared__ i64 next;
    const i64 span = 32 * WORDS;
    for (i64 row = blockIdx.x; row < p.m; row += gridDim.x) {
        const i64 first = FILLING ? p.c.start(row) : 0;
        Sum *values = (Sum *)p.c.values + first;
        i64 running = 0, total;
        for (i64 from = 0; from < p.n; from += span) {
            if (p.n > span) {
                i64 least = p.n;
                terms(p, row, [&](i64 j, Sum) { least = j >= from ? min(least, j) : least; });
                if (threadIdx.x == 0) next = p.n;
                __syncthreads();
                atomicMin(&next, least);
                __syncthreads();
                from = next;
            }
            const i64 words = min((p.n - from + 31) / 32, i64(WORDS));
            for (i64 word = threadIdx.x; word < words; word += blockDim.x) marks[word] = 0;
            __syncthreads();
            terms(p, row, [&](i64 j, Sum) {
                if (j >= from && j < from + span) atomicOr(&marks[(j - from) / 32], 1u << (j - from) % 32);
            });
            __syncthreads();
            for (i64 start = 0; start < words; start += blockDim.x) {
                const i64 word = start + threadIdx.x, mine = word < words ? __popc(marks[word]) : 0;
                i64 place = running + scanned(mine, total) - mine;
                running += total;
                if (!FILLING || word >= words) continue;
                before[word] = u32(place);
                for (u32 left = marks[word]; left; left &= left - 1, ++place) {
                    p.c.indices[first + place] = II(from + word * 32 + __ffs(left) - 1 + p.c.base);
                    values[place] = Sum(0);
                }
            }
            __syncthreads();
            if (FILLING)
                terms(p, row, [&](i64 j, Sum x) {
                    if (j < from || j >= from + span) return;
                    const i64 word = (j - from) / 32;
                    add(values + before[word] + __popc(marks[word] & (1u << (j - from) % 32) - 1), x);
                });
            __syncthreads();
        }
        if (!FILLING && threadIdx.x == 0) ((i64 *)p.room)[row] = running;
    }
}
// C = alpha A + beta C, of the same elements; the values of A are sums.
__device__ void finish_elements(const Params &p) {
    const Sum beta = beta_of(p);
    for (i64 t = thread(); t < max(p.a.count, p.m + 1); t += threads()) {
        if (t <= p.m) p.c.offsets[t] = IO(p.a.start(t) + p.c.base);
        if (t >= p.a.count) continue;
        p.c.indices[t] = II(p.a.index(t) + p.c.base);
        store(p, ((const Sum *)p.a.values)[t], beta, (TC *)p.c.values + t);
    }
}

// --- vectors ---------------------------------------------------------------------------------------------------------
// A's elements from Y, to Y, and added to it.
__device__ void gather_elements(const Params &p) {
    for (i64 e = thread(); e < p.a.count; e += threads()) ((TA *)p.a.values)[e] = *at<TA>(p.y, p.a.index(e), 0);
}
__device__ void scatter_elements(const Params &p) {
    for (i64 e = thread(); e < p.a.count; e += threads()) *at<TA>(p.y, p.a.index(e), 0) = ((TA *)p.a.values)[e];
}
__device__ void add_elements(const Params &p) {
    for (i64 e = thread(); e < p.a.count; e += threads())
        store(p, value<TA>(p.a.values, e, false), Sum(1), at<TC>(p.y, p.a.index(e), 0));
}

// --- triangular systems ----------------------------------------------------------------------------------------------
// op(A) Y = alpha X, a warp for each column, line after line. n: lines of A lie below the diagonal; k: the diagonal is 1.
__device__ void solve(const Params &p) {
    const i64 column = blockIdx.x, lane = threadIdx.x;
    const bool upwards = p.n == p.turned;
    for (i64 i = lane; i < p.m; i += 32) narrow(alpha_of(p) * element<TB>(p.x, i, column), *at<TC>(p.y, i, column));
    __syncwarp();
    for (i64 t = 0; t < p.m; ++t) {
        const i64 line = upwards ? p.m - 1 - t : t, begin = p.a.first(line), end = p.a.first(line + 1);
        Sum sum = Sum(0), diagonal = Sum(0);
        for (i64 e = begin + lane; e < end; e += 32) {
            const i64 index = p.a.index(e);
            const Sum factor = value<TA>(p.a.values, e, p.conjugated & A);
            if (index == line) diagonal = diagonal + factor;
            else if (!p.turned && index < line == p.n) sum = sum + factor * element<TC>(p.y, index, column);
        }
        TC *to = at<TC>(p.y, line, column);
        Sum found = Sum(wide(*to)) + Sum(-1) * shared(sum);
        diagonal = shared(diagonal);
        if (!p.k) found = quotient(found, diagonal);
        __syncwarp();
        if (lane == 0) narrow(found, *to);
        for (i64 e = begin + lane; p.turned && e < end; e += 32) {
            const i64 index = p.a.index(e);
            if (index == line || index < line != p.n) continue;
            TC *other = at<TC>(p.y, index, column);
            const Sum factor = value<TA>(p.a.values, e, p.conjugated & A);
            narrow(Sum(wide(*other)) + Sum(-1) * factor * found, *other);
        }
        __syncwarp();
    }
}

extern "C" __global__ void NAME(const Params p) { RUN(p); }
