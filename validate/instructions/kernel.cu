// The kernel around one instruction, whose registers `job.py` tells.
struct Words { unsigned w[16]; };
extern "C" __global__ void form(const float4 *in, float4 *out, Words words) {
    __shared__ float4 shared[256];
    float4 local[32];
    int t = threadIdx.x;
    float4 v[40];
    for (int k = 0; k < 40; ++k) v[k] = in[k * 32 + t];
    shared[t] = v[0];
    for (int k = 0; k < 32; ++k) local[k] = v[k];
    __syncthreads();
    float4 picked = local[words.w[t & 15] & 31];
    for (int k = 0; k < 40; ++k) { v[k].x += picked.x * shared[k ^ t].y; }
    for (int k = 0; k < 40; ++k) out[k * 32 + t] = v[39 - k];
}
