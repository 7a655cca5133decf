// y += alpha x, `width` elements a thread at once, `items` of these one after another.
__global__ void axpy(float *y, const float *x, float alpha, int n)
{
    for (int k = 0; k < items; k++) {
        int i = ((blockIdx.x * items + k) * threads + threadIdx.x) * width;
        if (i + width > n) {
            for (; i < n; i++) y[i] += alpha * x[i];
            continue;
        }
#if width == 4
        float4 a = *(const float4 *)(x + i), b = *(float4 *)(y + i);
        b.x += alpha * a.x; b.y += alpha * a.y; b.z += alpha * a.z; b.w += alpha * a.w;
        *(float4 *)(y + i) = b;
#else
        y[i] += alpha * x[i];
#endif
    }
}
