// Random numbers: generators with the streams of cuRAND's device interface, and draws from distributions.
// Macros: STATE, a generator; OUT, the results' type; DRAW, an expression of state `s` and index `k` that is a result.

// Marsaglia, "Xorshift RNGs" (2003): xorwow.
struct Xorwow {
    unsigned sum, v[5];

    __device__ unsigned next() {
        const unsigned t = v[0] ^ v[0] >> 2;
        for (int i = 0; i < 4; ++i) v[i] = v[i + 1];
        v[4] = v[4] ^ v[4] << 4 ^ t ^ t << 1;
        return v[4] + (sum += 362437);
    }
};

// Salmon, Moraes, Dror and Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3" (2011): Philox 4x32-10.
struct Philox {
    unsigned counter[4], output[4], key[2], used;

    __device__ unsigned next() {
        const unsigned found = output[used++];
        if (used == 4) {
            for (int i = 0; i < 4 && ++counter[i] == 0; ++i) {}
            encrypt();
            used = 0;
        }
        return found;
    }
    __device__ void encrypt() {
        unsigned a = counter[0], b = counter[1], c = counter[2], d = counter[3], k0 = key[0], k1 = key[1];
        for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9, k1 += 0xBB67AE85) {
            const unsigned long long x = 0xD2511F53ull * a, y = 0xCD9E8D57ull * c;
            a = unsigned(y >> 32) ^ b ^ k0, b = unsigned(y), c = unsigned(x >> 32) ^ d ^ k1, d = unsigned(x);
        }
        output[0] = a, output[1] = b, output[2] = c, output[3] = d;
    }
};

// L'Ecuyer, "Good Parameters and Implementations for Combined Multiple Recursive Random Number Generators" (1999).
struct Mrg32k3a {
    unsigned x[3], y[3];

    __device__ unsigned next() {  // 1 to the first modulus
        const unsigned long long m1 = 4294967087, m2 = 4294944443;
        const unsigned a = (1403580ull * x[1] + 810728ull * (m1 - x[0])) % m1;
        const unsigned b = (527612ull * y[2] + 1370589ull * (m2 - y[0])) % m2;
        x[0] = x[1], x[1] = x[2], x[2] = a, y[0] = y[1], y[1] = y[2], y[2] = b;
        return a <= b ? a + (m1 - b) : a - b;
    }
};

// A generator with what Box-Muller transforms have given besides what was asked for.
struct State : STATE {
    int has_float, has_double;
    float other_float;
    double other_double;
};

// --- bits, uniform and normal numbers: in (0, 1] as cuRAND has them ---------------------------------------------------

constexpr float UNIT = 2.3283064e-10f, TURN = 6.2831855f;
constexpr double WORD_UNIT = 2.3283064365386963e-10, SMALL_UNIT = 1.1102230246251565e-16, MRG_UNIT = 2.3283065498378288e-10;

template <typename S> __device__ unsigned bits_of(S& s) { return s.next(); }
template <> __device__ unsigned bits_of(Mrg32k3a& s) { return unsigned(s.next() * 1.000000048662); }
template <typename S> __device__ float float_of(S& s) { return s.next() * UNIT + UNIT / 2; }
template <> __device__ float float_of(Mrg32k3a& s) { return float(s.next() * MRG_UNIT); }
template <typename S> __device__ float angle_of(S& s) { return s.next() * (UNIT * TURN) + UNIT * TURN / 2; }
template <> __device__ float angle_of(Mrg32k3a& s) { return float_of(s) * TURN; }
template <typename S> __device__ double wide_double_of(S& s) {
    const unsigned long long low = s.next(), high = s.next();
    return (low ^ high << 21) * SMALL_UNIT + SMALL_UNIT / 2;
}
template <> __device__ double wide_double_of(Mrg32k3a& s) { return s.next() * MRG_UNIT; }
template <typename S> __device__ double double_of(S& s) { return wide_double_of(s); }
template <> __device__ double double_of(Philox& s) { return s.next() * WORD_UNIT + WORD_UNIT; }

__device__ unsigned bits(State& s) { return bits_of<STATE>(s); }
__device__ unsigned long long wide_bits(State& s) {
    const unsigned long long high = bits(s);
    return high << 32 | bits(s);
}

__device__ float normal_float(State& s) {
    if (s.has_float) {
        s.has_float = 0;
        return s.other_float;
    }
    const float radius_of = float_of<STATE>(s), angle = angle_of<STATE>(s), radius = sqrtf(-2 * logf(radius_of));
    float sine, cosine;
    __sincosf(angle, &sine, &cosine);
    s.other_float = cosine * radius, s.has_float = 1;
    return sine * radius;
}

__device__ double normal(State& s) {
    if (s.has_double) {
        s.has_double = 0;
        return s.other_double;
    }
    const double radius_of = wide_double_of<STATE>(s), halves = 2 * wide_double_of<STATE>(s);
    const double radius = sqrt(-2 * log(radius_of));
    double sine, cosine;
    sincospi(halves, &sine, &cosine);
    s.other_double = cosine * radius, s.has_double = 1;
    return sine * radius;
}

// --- draws of NumPy's distributions, from uniform numbers in [0, 1) ---------------------------------------------------

__device__ double uniform(State& s) {
    const double u = double_of<STATE>(s);
    return u < 1 ? u : 0;
}
__device__ float uniform_float(State& s) {
    const float u = float_of<STATE>(s);
    return u < 1 ? u : 0;
}
__device__ double exponential(State& s) { return -log(1 - uniform(s)); }

// An integer up to `most`: bits under a mask until they are not more.
__device__ unsigned interval(State& s, unsigned most, unsigned mask) {
    unsigned found;
    do found = bits(s) & mask; while (found > most);
    return found;
}
__device__ unsigned long long wide_interval(State& s, unsigned long long most, unsigned long long mask) {
    unsigned long long found;
    do found = wide_bits(s) & mask; while (found > most);
    return found;
}

// Ahrens and Dieter (1974) below 1, Marsaglia and Tsang (2000) above.
__device__ double gamma(State& s, double shape) {
    if (shape == 1) return exponential(s);
    if (shape < 0) return 0;
    if (shape < 1) {
        while (true) {
            const double u = uniform(s), v = exponential(s);
            const double y = u <= 1 - shape ? 0 : -log((1 - u) / shape);
            const double x = pow(u <= 1 - shape ? u : 1 - shape + shape * y, 1 / shape);
            if (x <= v + y) return x;
        }
    }
    const double b = shape - 1. / 3, c = 1 / sqrt(9 * b);
    while (true) {
        double x, t;
        do {
            x = normal(s);
            t = 1 + c * x;
        } while (t <= 0);
        const double v = t * t * t, u = uniform(s);
        if (u < 1 - 0.0331 * (x * x) * (x * x) || log(u) < 0.5 * x * x + b * (1 - v + log(v))) return b * v;
    }
}

// Johnk (1964) for small parameters, else a ratio of gammas.
__device__ double beta(State& s, double a, double b) {
    if (a > 1 || b > 1) {
        const double x = gamma(s, a);
        return x / (x + gamma(s, b));
    }
    while (true) {
        const double u = uniform(s), v = uniform(s), x = pow(u, 1 / a), y = pow(v, 1 / b);
        if (x + y > 1) continue;
        if (x + y > 0) return x / (x + y);
        const double log_x = log(u) / a, log_y = log(v) / b, most = fmax(log_x, log_y);
        return exp(log_x - most - log(exp(log_x - most) + exp(log_y - most)));
    }
}

__device__ long long geometric(State& s, double p) {
    if (p < 1. / 3) return ceil(log(1 - uniform(s)) / log(1 - p));
    const double u = uniform(s);
    long long found = 1;
    for (double term = p, sum = p; u > sum; ++found) sum += term *= 1 - p;
    return found;
}

// Kemp (1981).
__device__ long long logseries(State& s, double p) {
    while (true) {
        const double v = uniform(s);
        if (v >= p) return 1;
        const double q = 1 - exp(log(1 - p) * uniform(s));
        if (v >= q) return 1;
        if (v > q * q) return 2;
        const long long found = floor(1 + log(v) / log(q));
        if (found >= 1) return found;
    }
}

// Multiplication of uniform numbers below 10, else Hormann's transformed rejection with squeeze (1993).
__device__ long long poisson(State& s, double mean) {
    if (mean == 0) return 0;
    if (mean < 10) {
        long long found = 0;
        for (double product = uniform(s), least = exp(-mean); product > least; ++found) product *= uniform(s);
        return found;
    }
    const double b = 0.931 + 2.53 * sqrt(mean), a = -0.059 + 0.02483 * b, scale = 1.1239 + 1.1328 / (b - 3.4);
    while (true) {
        const double u = uniform(s) - 0.5, v = uniform(s), rest = 0.5 - fabs(u);
        const double k = floor((2 * a / rest + b) * u + mean + 0.43);
        if (rest >= 0.07 && v <= 0.9277 - 3.6224 / (b - 2)) return k;
        if (k < 0 || (rest < 0.013 && v > rest)) continue;
        if (log(v) + log(scale) - log(a / (rest * rest) + b) <= -mean + k * log(mean) - lgamma(k + 1)) return k;
    }
}

// What Stirling's approximation of a factorial lacks: a term of BTPE's last test.
__device__ double correction(double f) {
    const double f2 = f * f;
    return (13680 - (462 - (132 - (99 - 140 / f2) / f2) / f2) / f2) / f / 166320;
}

// Kachitvichyanukul and Schmeiser, "Binomial Random Variate Generation" (1988): BTPE. r: at most a half.
__device__ long long binomial_btpe(State& s, long long n, double r) {
    const double q = 1 - r, nrq = n * r * q, mode = n * r + r, m = floor(mode);
    const double p1 = floor(2.195 * sqrt(nrq) - 4.6 * q) + 0.5, middle = m + 0.5, left = middle - p1, right = middle + p1;
    const double c = 0.134 + 20.5 / (15.3 + m), a = (mode - left) / (mode - left * r), b = (right - mode) / (right * q);
    const double rate_left = a * (1 + a / 2), rate_right = b * (1 + b / 2);
    const double p2 = p1 * (1 + 2 * c), p3 = p2 + c / rate_left, p4 = p3 + c / rate_right;
    while (true) {
        const double u = uniform(s) * p4;
        double v = uniform(s), y;
        if (u <= p1) return floor(middle - p1 * v + u);  // the triangle
        if (u <= p2) {                                   // the parallelograms
            const double x = left + (u - p1) / c;
            v = v * c + 1 - fabs(m - x + 0.5) / p1;
            if (v > 1) continue;
            y = floor(x);
        } else if (u <= p3) {  // the left tail
            y = floor(left + log(v) / rate_left);
            if (y < 0) continue;
            v *= (u - p2) * rate_left;
        } else {  // the right one
            y = floor(right - log(v) / rate_right);
            if (y > n) continue;
            v *= (u - p3) * rate_right;
        }
        const double k = fabs(y - m);
        if (k <= 20 || k >= nrq / 2 - 1) {
            const double odds = r / q, step = odds * (n + 1);
            double ratio = 1;
            for (double i = m + 1; i <= y; ++i) ratio *= step / i - odds;
            for (double i = y + 1; i <= m; ++i) ratio /= step / i - odds;
            if (v <= ratio) return y;
            continue;
        }
        const double width = k / nrq * ((k * (k / 3 + 0.625) + 1. / 6) / nrq + 0.5), t = -k * k / (2 * nrq), height = log(v);
        if (height < t - width) return y;
        if (height > t + width) continue;
        const double x1 = y + 1, f1 = m + 1, z = n + 1 - m, w = n - y + 1;
        const double bound = middle * log(f1 / x1) + (n - m + 0.5) * log(z / w) + (y - m) * log(w * r / (x1 * q));
        if (height <= bound + correction(f1) + correction(z) + correction(x1) + correction(w)) return y;
    }
}

// Inversion where few are expected.
__device__ long long binomial_inversion(State& s, long long n, double p) {
    const double q = 1 - p, first = exp(n * log(q)), bound = fmin(double(n), n * p + 10 * sqrt(n * p * q + 1));
    long long found = 0;
    double term = first, u = uniform(s);
    while (u > term) {
        if (++found > bound) {
            found = 0, term = first, u = uniform(s);
        } else {
            u -= term;
            term *= (n - found + 1) * p / (found * q);
        }
    }
    return found;
}

__device__ long long binomial(State& s, long long n, double p) {
    const double r = p <= 0.5 ? p : 1 - p;
    const long long found = r * n <= 30 ? binomial_inversion(s, n, r) : binomial_btpe(s, n, r);
    return p <= 0.5 ? found : n - found;
}

// Urns for small samples, else Stadlober's ratio of uniforms (1990).
__device__ long long hypergeometric(State& s, long long good, long long bad, long long sample) {
    if (sample <= 0) return 0;
    const long long total = good + bad, few = min(good, bad), many = max(good, bad);
    if (sample <= 10 || sample > total - 10) {
        double left = few;
        for (long long k = sample; left > 0 && k > 0; --k) left -= floor(uniform(s) + left / (total - sample + k));
        const long long found = few - left;
        return good > bad ? sample - found : found;
    }
    const long long m = min(sample, total - sample);
    const double share = double(few) / total, middle = m * share + 0.5;
    const double deviation = sqrt(double(total - m) * sample * share * (1 - share) / (total - 1) + 0.5);
    const double width = 1.7155277699214135 * deviation + 0.8989161620588988;
    const double end = fmin(min(m, few) + 1.0, floor(middle + 16 * deviation));
    const auto logs = [&](double k) {
        return lgamma(k + 1) + lgamma(few - k + 1) + lgamma(m - k + 1) + lgamma(many - m + k + 1);
    };
    const double mode = logs(floor(double(m + 1) * (few + 1) / (total + 2)));
    while (true) {
        const double x = uniform(s), y = uniform(s), w = middle + width * (y - 0.5) / x;
        if (w < 0 || w >= end) continue;
        const double k = floor(w), t = mode - logs(k);
        if (x * (4 - x) - 3 > t && (x * (x - t) >= 1 || 2 * log(x) > t)) continue;
        const long long found = good > bad ? m - (long long)k : (long long)k;
        return m < sample ? good - found : found;
    }
}

// Result k comes from state k modulo their number. a, b, c: parameters of the distribution.
extern "C" __global__ void draw(
    State* states, long long state_count, OUT* results, long long count, const double* a, const double* b,
    const double* c, unsigned long long most, unsigned long long mask, unsigned long long begin
) {
    const long long first = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (first >= state_count) return;
    State& at = states[(begin + first) % state_count];
    State s = at;
    for (long long k = first; k < count; k += state_count) results[k] = DRAW;
    at = s;
}
