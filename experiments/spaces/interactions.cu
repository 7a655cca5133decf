// Accelerations of n bodies on each other; the sources pass through registers or shared memory.
#if packed
#define SOURCE(j) source[j]
#else
#define SOURCE(j) make_float4(source_x[j], source_y[j], source_z[j], source_m[j])
#endif

__global__ void __launch_bounds__(block) interactions(float *out, const float *bodies, int n)
{
    const int first = blockIdx.x * block * items + threadIdx.x;
#if packed
    const float4 *all = reinterpret_cast<const float4 *>(bodies);
#else
    const float *all_x = bodies, *all_y = bodies + n, *all_z = bodies + 2 * n, *all_m = bodies + 3 * n;
#endif
    float px[items], py[items], pz[items], ax[items] = {}, ay[items] = {}, az[items] = {};
#pragma unroll
    for (int k = 0; k < items; k++) {
        const int i = min(first + k * block, n - 1);
#if packed
        const float4 one = all[i];
        px[k] = one.x, py[k] = one.y, pz[k] = one.z;
#else
        px[k] = all_x[i], py[k] = all_y[i], pz[k] = all_z[i];
#endif
    }
    for (int from = 0; from < n; from += step) {
        const int count = min(step, n - from);
#if staged
#if packed
        __shared__ float4 source[step];
        for (int j = threadIdx.x; j < count; j += block) source[j] = all[from + j];
#else
        __shared__ float source_x[step], source_y[step], source_z[step], source_m[step];
        for (int j = threadIdx.x; j < count; j += block) {
            source_x[j] = all_x[from + j], source_y[j] = all_y[from + j];
            source_z[j] = all_z[from + j], source_m[j] = all_m[from + j];
        }
#endif
        __syncthreads();
#elif packed
        const float4 *source = all + from;
#else
        const float *source_x = all_x + from, *source_y = all_y + from, *source_z = all_z + from, *source_m = all_m + from;
#endif
#pragma unroll ahead
        for (int j = 0; j < count; j++) {
            const float4 other = SOURCE(j);
#pragma unroll
            for (int k = 0; k < items; k++) {
                const float dx = other.x - px[k], dy = other.y - py[k], dz = other.z - pz[k];
                const float near = rsqrtf(dx * dx + dy * dy + dz * dz + 0.01f);
                const float pull = other.w * near * near * near;
                ax[k] += dx * pull, ay[k] += dy * pull, az[k] += dz * pull;
            }
        }
#if staged
        __syncthreads();
#endif
    }
#pragma unroll
    for (int k = 0; k < items; k++) {
        const int i = first + k * block;
        if (i < n) out[3 * i] = ax[k], out[3 * i + 1] = ay[k], out[3 * i + 2] = az[k];
    }
}
