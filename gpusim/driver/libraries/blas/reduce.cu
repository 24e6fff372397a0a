// D = epilogue(alpha * S + beta * C), where S is a sum of `parts` matrices of floats, of none, or what has come into D (IN_D,
// alpha and beta are 1 and 0 then). A block of THREADS takes ROWS x COLUMNS, VECTOR numbers at once.
#include "product.cuh"

struct Sums { const float *at; long long part; int row, parts; };  // part, row: elements to the next

// What is volatile is asked for before anything is added.
__device__ inline void load(float (&to)[1], const float *from) {
    asm volatile("ld.global.f32 %0, [%1];" : "=f"(to[0]) : "l"(from) : "memory");
}
__device__ inline void load(float (&to)[4], const float *from) {
    asm volatile("ld.global.v4.f32 {%0, %1, %2, %3}, [%4];"
        : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3]) : "l"(from) : "memory");
}

extern "C" __global__ void __launch_bounds__(THREADS) NAME(const Gemm p, const Sums sums) {
    constexpr int ACROSS = COLUMNS / VECTOR, EACH = ROWS * ACROSS / THREADS, AHEAD = VECTOR == 1 ? 8 : 2;
    struct alignas(4 * VECTOR) Row { float of[VECTOR]; };
    int i[EACH], j[EACH], left = sums.parts;
    Row sum[EACH] = {};
    const float *at[EACH];
    long long part = sums.part;
    asm volatile("" : "+l"(part));  // in registers, which the compiler would not do
#pragma unroll
    for (int each = 0; each < EACH; each++) {
        i[each] = blockIdx.y * ROWS + (each * THREADS + threadIdx.x) / ACROSS;
        j[each] = blockIdx.x * COLUMNS + (each * THREADS + threadIdx.x) % ACROSS * VECTOR;
        at[each] = sums.at + (i[each] < p.m && j[each] < p.n ? (long long)sums.row * i[each] + j[each] : 0);
    }
    for (; left > 0; left -= AHEAD) {  // as many as are on their way together
        Row more[AHEAD * EACH];
#pragma unroll
        for (int one = 0; one < AHEAD * EACH; one++, at[(one - 1) % EACH] += part) {
            more[one] = {};
            if (one / EACH < left) load(more[one].of, at[one % EACH]);
        }
#pragma unroll
        for (int one = 0; one < AHEAD * EACH; one++)
            for (int number = 0; number < VECTOR; number++) sum[one % EACH].of[number] += more[one].of[number];
    }
    Scalar alpha = IN_D ? 1 : given<TS>(p.alpha_at, p.alpha[0], p.alpha[1]);
    Writer writer(p, 0, alpha, IN_D ? 0 : given<TS>(p.beta_at, p.beta[0], p.beta[1]));
    writer.put<float, EACH, VECTOR>(i, j, (const float(&)[EACH][VECTOR])sum);
}
