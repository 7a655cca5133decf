// A filter of `taps` coefficients over a signal, read through shared memory or directly.
__global__ void fir(float *y, const float *x, const float *h, int n)
{
    int first = blockIdx.x * threads * items;
#if use_shared
    __shared__ float part[threads * items + taps];
    for (int i = threadIdx.x; i < threads * items + taps - 1; i += threads) part[i] = first + i < n + taps - 1 ? x[first + i] : 0.0f;
    __syncthreads();
#endif
    for (int k = 0; k < items; k++) {
        int i = k * threads + threadIdx.x;
        float sum = 0.0f;
        if (first + i < n) {
#if use_shared
            for (int t = 0; t < taps; t++) sum += h[t] * part[i + t];
#else
            for (int t = 0; t < taps; t++) sum += h[t] * x[first + i + t];
#endif
            y[first + i] = sum;
        }
    }
}
