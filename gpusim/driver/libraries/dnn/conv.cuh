// What a convolution is to its kernels: places of images, filters and results by their numbers, and what becomes of a sum.
#include "types.cuh"

constexpr int OUTSIDE = -(1 << 29);

// A number's digit, and what each unit of it adds to a place. Division by its size, of numbers below 2^31, is by
// multiplication (Granlund, Montgomery: Division by Invariant Integers using Multiplication, 1994).
struct Digit { u32 size, magic; int shift, image, other, x, y, z; };
struct Index { Digit digits[4]; int count, image, other, x, y, z; };  // the fastest digit comes first
struct Conv {
    const void *plain, *image, *added, *bias;
    void *out;
    float *sums;         // of parts, each of `span` elements
    int span, parts;     // parts of a sum over red
    int phases, groups, channels;
    int plain_channel, plain_group, image_group, out_channel, out_group;  // distances in elements
    int x, y, z;         // extents of image
    int relu;
    int plain_k;         // distance along k in plain whose channels lie across
    int rows;            // of a group of a packed filter; `parts` of them are there
    double alpha, beta;
    Index free[8], red[8];  // of each phase: places whose sums have the same part of the filter
};
typedef decltype(wide(T())) Sum;

// A place's part of an element's distance in image and in plain or out, and of its coordinates there. Outside if y is.
struct alignas(16) Place {
    int image, other, x, y;
#if DIMS == 3
    int z;
#endif
    __device__ bool there() const { return y > OUTSIDE / 2; }
    __device__ bool meets(const Place &other, int extent_x, int extent_y, int extent_z) const {
        bool inside = ((u32)(x + other.x) < extent_x) & ((u32)(y + other.y) < extent_y);
#if DIMS == 3
        inside &= (u32)(z + other.z) < extent_z;
#endif
        return inside;
    }
};
__device__ inline Place place(const Index &of, u32 number) {
    Place found;
    found.image = of.image, found.other = of.other, found.x = of.x, found.y = of.y;
#if DIMS == 3
    found.z = of.z;
#endif
    if (number >= of.count) {
        found.y = OUTSIDE;
        return found;
    }
#pragma unroll
    for (int each = 0; each <= DIMS; each++) {
        const Digit &digit = of.digits[each];
        u32 rest = each < DIMS ? (__umulhi(number, digit.magic) + number) >> digit.shift : 0;
        int value = number - rest * digit.size;
        found.image += value * digit.image, found.other += value * digit.other;
        found.x += value * digit.x, found.y += value * digit.y;
#if DIMS == 3
        found.z += value * digit.z;
#endif
        number = rest;
    }
    return found;
}
// What becomes of a sum.
struct Finish {
    Sum alpha, beta;
    const T *added, *bias;
    T *out;
    bool relu;

    __device__ Finish(const Conv &p) : alpha(p.alpha), beta(p.beta), relu(p.relu) {
        added = (const T *)p.added, bias = (const T *)p.bias, out = (T *)p.out;
    }
    __device__ void put(Sum sum, int channel, int at) const {
        Sum x = alpha * sum;
        if (beta != 0) x += beta * wide(added[at]);
        if (bias) x += wide(bias[channel]);
        narrow(relu && x < 0 ? 0 : x, out[at]);  // NaN stays
    }
    // Four that lie side by side, of as many channels or of one.
    __device__ void put(const Sum (&sums)[4], int channel, int at, bool channels) const {
        struct alignas(4 * sizeof(T)) Four { T of[4]; } four;
#pragma unroll
        for (int each = 0; each < 4; each++) {
            Sum x = alpha * sums[each];
            if (beta != 0) x += beta * wide(added[at + each]);
            if (bias) x += wide(bias[channel + each * channels]);
            narrow(relu && x < 0 ? 0 : x, four.of[each]);
        }
        *(Four *)(out + at) = four;
    }
};

