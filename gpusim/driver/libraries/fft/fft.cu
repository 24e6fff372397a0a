// A pass of a Fourier transform: transforms of N numbers, of which a block does LINES at once with EACH_LINE threads
// each. T is a number's type in memory. RADICES are those of Stockham's stages: a stage's butterflies take numbers from
// registers to shared memory and the next ones take them from there, but for the first, which loads them, and the last,
// which stores them. IN_COLUMNS, OUT_COLUMNS: threads beside each other load or store beside each other in lines next
// to each other, instead of in one.
//
// LOAD and STORE say what lies in memory (below). With LENGTH, the transform is Bluestein's: a convolution of LENGTH
// numbers by two transforms of N. With TWIDDLE, results are multiplied by roots of unity of order `of`, as the first
// pass of a longer transform needs. All transforms are forward ones: for a backward one, what is loaded and what is
// stored is conjugated (sign -1).
#include "types.cuh"

// What a line has in memory: complex numbers; real ones; the first half of the transform of real ones; real ones, of
// which two are taken as a complex one, or what their transform is (N and a half of it). Pairs are aligned or are not.
enum { COMPLEX, REAL, HALF, PAIRS, ALIGNED_PAIRS, PACKED };

template <class R> struct Computed { typedef float type; };
template <> struct Computed<double> { typedef double type; };
typedef Computed<T>::type F;
typedef complex<F> Z;
typedef long long i64;

struct alignas(2 * sizeof(T)) Stored { T re, im; };
struct Digit { u64 size; i64 in, out; };  // of a line's number: what one more adds to its place in memory
struct Pass {
    const void *in;
    void *out;
    const Z *filter;  // the transform of Bluestein's second factor, divided by N
    i64 in_step, out_step, between;  // between: the numbers of a pair
    double half;  // of / 2
    u32 lines, digits, twiddled;  // twiddled: which digit, for TWIDDLE
    int sign;
    Digit digit[6];
};

__device__ Z operator-(Z x, Z y) { return {x.re - y.re, x.im - y.im}; }
__device__ Z scaled(Z x, F by) { return {x.re * by, x.im * by}; }
__device__ Z turned(Z x) { return {-x.im, x.re}; }  // by i

// --- roots of unity ---------------------------------------------------------------------------------------------------

__device__ Z half_turns(float by) {
    float s, c;
    sincospif(by, &s, &c);
    return {c, -s};
}
__device__ Z half_turns(double by) {
    double s, c;
    sincospi(by, &s, &c);
    return Z(F(c), F(-s));
}
// exp(-pi i k / n), 0 <= k <= 2 n. What a double's rounding adds is nothing to a float.
__device__ Z root_at(double k, double n) {
    k = k > n ? k - 2 * n : k;
    return half_turns(F(sizeof(F) == sizeof(double) ? k / n : k * (1 / n)));
}
template <int OF> __device__ Z root(int k) {  // exp(-2 pi i k / OF), 0 <= k < OF
    if (OF & (OF - 1)) return root_at(k, OF / 2.);
    return half_turns((2 * k > OF ? k - OF : k) * F(2. / OF));
}
__device__ Z chirp(u32 n, u64 length) {  // exp(-pi i n^2 / length)
    u64 k = LENGTH > 0 && LENGTH < 32768 ? n * n % (2 * LENGTH + !LENGTH) : (u64)n * n % (2 * length);
    return root_at(k, length);
}
// Numbers times w^0, w^1, ...; `first` is w^0.
template <int R> __device__ void twiddle(Z (&v)[R], Z w, Z first = Z(1)) {
    Z powers[R];
    powers[0] = first;
    if (R > 1) powers[1] = w;
#pragma unroll
    for (int r = 1; r < R; r++) {
        if (r > 1) powers[r] = powers[r / 2] * powers[r - r / 2];
        v[r] = v[r] * powers[r];
    }
}

// --- short transforms in registers ------------------------------------------------------------------------------------

template <int R> struct Roots {  // by Taylor's series, within an eighth of a turn of the nearest quarter
    double re[R], im[R];
    __device__ constexpr Roots() : re(), im() {
        for (int k = 0; k < R; k++) {
            int quarter = (8 * k + R) / (2 * R);
            double x = 1.5707963267948966192313216916398 * (4 * k - quarter * R) / R, c = 0, s = 0, term = 1;
            for (int n = 0; n < 24; n += 2) {
                c += n % 4 ? -term : term;
                term *= x / (n + 1);
                s += n % 4 ? -term : term;
                term *= x / (n + 2);
            }
            re[k] = quarter % 4 == 0 ? c : quarter % 4 == 1 ? -s : quarter % 4 == 2 ? -c : s;
            im[k] = quarter % 4 == 0 ? -s : quarter % 4 == 1 ? -c : quarter % 4 == 2 ? s : c;
        }
    }
};

template <int R> __device__ Z times_root(Z x, int k) {
    constexpr Roots<R> roots;
    if (k == 0) return x;
    if (2 * k == R) return {-x.re, -x.im};
    if (4 * k == R) return {x.im, -x.re};
    if (4 * k == 3 * R) return turned(x);
    return x * Z(F(roots.re[k]), F(roots.im[k]));
}

__device__ constexpr int factor(int r) { return r % 4 == 0 && r > 4 ? 4 : r % 2 == 0 ? 2 : r % 3 == 0 ? 3 : r % 5 == 0 ? 5 : r; }

template <int R> __device__ void butterfly(Z (&x)[R]) {
    constexpr int A = factor(R), B = R / A, HALF_OF = R / 2;
    if constexpr (R == 2) {
        Z sum = x[0] + x[1];
        x[1] = x[0] - x[1];
        x[0] = sum;
    } else if constexpr (A < R) {
        Z y[R];
#pragma unroll
        for (int b = 0; b < B; b++) {
            Z part[A];
#pragma unroll
            for (int a = 0; a < A; a++) part[a] = x[B * a + b];
            butterfly<A>(part);
#pragma unroll
            for (int a = 0; a < A; a++) y[B * a + b] = times_root<R>(part[a], a * b);
        }
#pragma unroll
        for (int a = 0; a < A; a++) {
            Z part[B];
#pragma unroll
            for (int b = 0; b < B; b++) part[b] = y[B * a + b];
            butterfly<B>(part);
#pragma unroll
            for (int b = 0; b < B; b++) x[a + A * b] = part[b];
        }
    } else if constexpr (R > 1) {  // an odd prime: numbers k and R - k have conjugated roots
        constexpr Roots<R> roots;
        Z sums[HALF_OF + 1], differences[HALF_OF + 1], first = x[0];
#pragma unroll
        for (int k = 1; k <= HALF_OF; k++) {
            sums[k] = x[k] + x[R - k];
            differences[k] = x[k] - x[R - k];
            x[0] = x[0] + sums[k];
        }
#pragma unroll
        for (int j = 1; j <= HALF_OF; j++) {
            Z even = first, odd = Z(0);
#pragma unroll
            for (int k = 1; k <= HALF_OF; k++) {
                even = even + scaled(sums[k], F(roots.re[j * k % R]));
                odd = odd + scaled(differences[k], F(roots.im[j * k % R]));
            }
            x[j] = even + turned(odd);
            x[R - j] = even - turned(odd);
        }
    }
}

// --- memory -----------------------------------------------------------------------------------------------------------

__device__ Z wide(Stored x) { return {F(wide(x.re)), F(wide(x.im))}; }

template <int MODE> __device__ Z load(const Pass &p, i64 base, i64 i, i64 length) {
    const T *real = (const T *)p.in + base;
    const i64 step = IN_STEP ? IN_STEP : p.in_step;
    if (MODE == REAL) return Z(wide(real[step * i]));
    if (MODE == PAIRS) return {wide(real[step * i]), wide(real[step * i + p.between])};
    if (MODE == ALIGNED_PAIRS) return wide(*(const Stored *)(real + step * i));
    bool other = MODE == HALF && 2 * i > length;
    Z value = wide(((const Stored *)p.in)[base + step * (other ? length - i : i)]);
    return other ? conjugate(value) : value;
}

template <int MODE> __device__ void store(const Pass &p, i64 base, i64 k, Z value, i64 length) {
    T *real = (T *)p.out + base;
    const i64 step = OUT_STEP ? OUT_STEP : p.out_step;
    Stored both;
    narrow(value.re, both.re);
    narrow(value.im, both.im);
    if (MODE == REAL) real[step * k] = both.re;
    else if (MODE == PAIRS) {
        real[step * k] = both.re;
        real[step * k + p.between] = both.im;
    } else if (MODE == ALIGNED_PAIRS) *(Stored *)(real + step * k) = both;
    else if (MODE != HALF || 2 * k <= length) ((Stored *)p.out)[base + step * k] = both;
}

__device__ i64 base_of(const Pass &p, u32 line, bool out, u32 &twiddled) {
    i64 base = 0;
    for (u32 d = 0; d < p.digits; d++) {
        u32 size = p.digit[d].size, value = line;
        if (d + 1 < p.digits) {
            line = value / size;
            value -= line * size;
        }
        if (d == p.twiddled) twiddled = value;
        base += value * (out ? p.digit[d].out : p.digit[d].in);
    }
    return base;
}

// Numbers k and n - k of the transform of 2 n real numbers, of what their pairs' transform has there; and back.
__device__ void unpack(Z &low, Z &high, Z w) {
    Z even = scaled(low + conjugate(high), F(.5)), odd = scaled(w * turned(low - conjugate(high)), F(-.5));
    low = even + odd;
    high = conjugate(even - odd);
}
__device__ void pack(Z &low, Z &high, Z w, bool first) {
    if (first) low.im = high.im = 0;
    Z even = low + conjugate(high), odd = turned(conjugate(w) * (low - conjugate(high)));
    low = even + odd;
    high = conjugate(even - odd);
}

#if CHIRP < 0
// --- a transform ------------------------------------------------------------------------------------------------------

// Behind PADDED numbers in shared memory is a gap, so that butterflies beside each other use different banks.
constexpr int PITCH = (N + N / PADDED) | 1;
extern __shared__ __align__(16) char memory[];

__device__ constexpr int padded(int i) { return i + i / PADDED; }
__device__ Z &kept(int line, int i, int more = 0) { return ((Z *)memory)[line * PITCH + padded(i) + padded(more)]; }

struct Place { int line, j; u32 twiddled; i64 base; bool there; };
template <bool COLUMNS> __device__ Place place(const Pass &p, bool out) {
    Place at;
    at.line = COLUMNS ? threadIdx.x % LINES : threadIdx.x / EACH_LINE;
    at.j = COLUMNS ? threadIdx.x / LINES : threadIdx.x % EACH_LINE;
    u32 line = blockIdx.x * LINES + at.line;
    at.there = line < p.lines;
    at.base = base_of(p, at.there ? line : 0, out, at.twiddled);
    return at;
}

template <bool FROM_MEMORY, bool TO_MEMORY, int DONE, int R, int... REST> __device__ void stages(const Pass &p) {
    constexpr bool first = FROM_MEMORY && DONE == 1, last = sizeof...(REST) == 0, stored = TO_MEMORY && last;
    constexpr int COUNT = N / R, EACH = (COUNT + EACH_LINE - 1) / EACH_LINE;
    Place at = place<first ? IN_COLUMNS : OUT_COLUMNS>(p, stored);
    i64 in = at.base;
    if (first && stored) in = base_of(p, at.there ? blockIdx.x * LINES + at.line : 0, false, at.twiddled);
    Z v[EACH][R];
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        int j = at.j + e * EACH_LINE;
        if (COUNT % EACH_LINE && j >= COUNT) continue;
#pragma unroll
        for (int r = 0; r < R; r++) {
            int i = j + r * COUNT;
            if (!first) v[e][r] = kept(at.line, j, r * COUNT);
            else if (!LENGTH || i < LENGTH) {
                v[e][r] = load<LOAD>(p, in, i, LENGTH ? LENGTH : N);
                v[e][r].im *= p.sign;
                if (LENGTH) v[e][r] = v[e][r] * chirp(i, LENGTH);
            } else v[e][r] = Z(0);
        }
    }
    if (!first && !stored) __syncthreads();
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        int j = at.j + e * EACH_LINE, k = (u32)j % DONE, group = (j - k) * R;
        if (COUNT % EACH_LINE && j >= COUNT) continue;
        if (DONE > 1) twiddle<R>(v[e], root<DONE * R>(k));
        butterfly<R>(v[e]);
        if (TWIDDLE && stored) {
            Z start = root_at(at.twiddled * j, p.half), step = root_at(at.twiddled * COUNT, p.half);
            twiddle<R>(v[e], step);
#pragma unroll
            for (int r = 0; r < R; r++) v[e][r] = v[e][r] * start;
        }
#pragma unroll
        for (int r = 0; r < R; r++) {
            int to = group + k + r * DONE;
            Z value = v[e][r];
            if (stored) {
                if (LENGTH) value = conjugate(value) * chirp(to, LENGTH);
                value.im *= p.sign;
                if (at.there && (!LENGTH || to < LENGTH)) store<STORE>(p, at.base, to, value, LENGTH ? LENGTH : N);
            } else {
                if (LENGTH && last) value = conjugate(value * p.filter[to]);
                kept(at.line, group + k, r * DONE) = value;
            }
        }
    }
    if (!stored) __syncthreads();
    if constexpr (!last) stages<FROM_MEMORY, TO_MEMORY, DONE * R, REST...>(p);
}

extern "C" __global__ void __launch_bounds__(LINES * EACH_LINE) NAME(const Pass p) {
    if (LOAD == PACKED) {
        Place at = place<IN_COLUMNS>(p, false);
        for (int k = at.j; 2 * k <= N; k += EACH_LINE) {
            Z low = load<COMPLEX>(p, at.base, k, N), high = load<COMPLEX>(p, at.base, N - k, N);
            pack(low, high, root<2 * N>(k), k == 0);
            kept(at.line, k) = conjugate(low);
            if (k) kept(at.line, N - k) = conjugate(high);
        }
        __syncthreads();
    }
    stages<LOAD != PACKED, STORE != PACKED && !LENGTH, 1, RADICES>(p);
    if constexpr (LENGTH > 0) stages<false, true, 1, RADICES>(p);
    if (STORE == PACKED) {
        Place at = place<OUT_COLUMNS>(p, true);
        for (int k = at.j; 2 * k <= N; k += EACH_LINE) {
            Z low = kept(at.line, k), high = kept(at.line, k ? N - k : 0);
            unpack(low, high, root<2 * N>(k));
            store<COMPLEX>(p, at.base, k, low, N);
            store<COMPLEX>(p, at.base, N - k, high, N);
        }
    }
}
#else
// --- what is done to each number before and after transforms of several passes ----------------------------------------

// LOAD or STORE is PACKED: n complex numbers of n + 1, or back. Otherwise `count` numbers of a line are made of `length`
// and multiplied by CHIRP: nothing, 1 Bluestein's first factor, 2 the filter, 3 the first factor again.
struct Mapped { Pass p; i64 length, count; };
extern "C" __global__ void __launch_bounds__(256) NAME(const Mapped m) {
    const Pass &p = m.p;
    bool packed = LOAD == PACKED || STORE == PACKED;
    u64 number = blockIdx.x * 256ull + threadIdx.x, count = packed ? m.count / 2 + 1 : m.count;
    if (number >= count * p.lines) return;
    u32 line = OUT_COLUMNS ? number % p.lines : number / count, twiddled;
    i64 i = OUT_COLUMNS ? number / p.lines : number % count;
    i64 in = base_of(p, line, false, twiddled), out = base_of(p, line, true, twiddled);
    if (packed) {
        i64 other = m.length - i;
        Z low = load<COMPLEX>(p, in, i, 0), high = load<COMPLEX>(p, in, STORE == PACKED && !i ? 0 : other, 0);
        Z w = root_at(i, m.length);
        if (LOAD == PACKED) pack(low, high, w, i == 0);
        else unpack(low, high, w);
        store<COMPLEX>(p, out, i, low, 0);
        if (STORE == PACKED || i) store<COMPLEX>(p, out, other, high, 0);
        return;
    }
    Z value = Z(0);
    if (CHIRP != 1 || i < m.length) {
        value = load<LOAD>(p, in, i, m.length);
        if (CHIRP == 2) value = conjugate(value * p.filter[i]);
        if (CHIRP == 3) value = conjugate(value) * chirp(i, m.length);
        value.im *= p.sign;
        if (CHIRP == 1) value = value * chirp(i, m.length);
    }
    store<STORE>(p, out, i, value, m.length);
}
#endif
