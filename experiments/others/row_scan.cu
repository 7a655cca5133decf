// Inclusive prefix sums of each row, chunk by chunk; sums travel between the lanes of a warp, and between warps.
__global__ void row_scan(float *y, const float *x, int length)
{
    __shared__ float sums[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float carry = 0.0f;
    size_t row = (size_t)blockIdx.x * length;
    for (int first = 0; first < length; first += threads) {
        float mine = x[row + first + threadIdx.x];
        for (int step = 1; step < 32; step *= 2) {
            float other = __shfl_up_sync(0xffffffffu, mine, step);
            if (lane >= step) mine += other;
        }
        if (lane == 31) sums[warp] = mine;
        __syncthreads();
        float before = carry, whole = carry;
        for (int w = 0; w < threads / 32; w++) {
            if (w < warp) before += sums[w];
            whole += sums[w];
        }
        y[row + first + threadIdx.x] = before + mine;
        carry = whole;
        __syncthreads();
    }
}
