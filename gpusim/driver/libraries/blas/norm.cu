// A number of a vector's absolute values, for one type T: OF 0 their sum, 1 the root of the sum of squares, 2 the place
// of the first largest one, 3 of the first smallest one, counted from 1. A complex number's is |re| + |im|. One block.
#include "types.cuh"

typedef decltype(wide(T())) Value;
template <class R> struct Real { typedef R type; };
template <class R> struct Real<complex<R>> { typedef R type; };
template <class R> __device__ double size(complex<R> x) {
    return OF == 1 ? (double)x.re * x.re + (double)x.im * x.im : fabs((double)x.re) + fabs((double)x.im);
}
template <class R> __device__ double size(R x) { return OF == 1 ? (double)x * x : fabs((double)x); }

__device__ void join(double &size, int &place, double other, int there) {
    if (OF < 2) size += other;
    bool better = OF == 2 ? other > size : other < size;
    if (OF >= 2 && there && (!place || better || (other == size && there < place))) {
        size = other;
        place = there;
    }
}

extern "C" __global__ void __launch_bounds__(256) NAME(const T *x, long long step, void *result, int n) {
    __shared__ double sizes[256];
    __shared__ int places[256];
    double found = 0;
    int place = 0;
    for (int i = threadIdx.x; i < n; i += 256) join(found, place, size(wide(x[step * i])), i + 1);
    sizes[threadIdx.x] = found;
    places[threadIdx.x] = place;
    for (int left = 128; left; left /= 2) {
        __syncthreads();
        if (threadIdx.x < left) {
            join(found, place, sizes[threadIdx.x + left], places[threadIdx.x + left]);
            sizes[threadIdx.x] = found;
            places[threadIdx.x] = place;
        }
    }
    if (threadIdx.x) return;
    if (OF < 2) *(typename Real<Value>::type *)result = OF ? sqrt(found) : found;
    else *(int *)result = place;
}
