// A polynomial of `degree` at every x: `items` independent chains of dependent fused multiply-adds a thread.
__global__ void horner(float *y, const float *x, int n)
{
    int first = blockIdx.x * threads * items + threadIdx.x;
    float at[items], sum[items];
    for (int k = 0; k < items; k++) at[k] = x[first + k * threads], sum[k] = 1.0f;
    for (int d = 0; d < degree; d++)
        for (int k = 0; k < items; k++) sum[k] = fmaf(sum[k], at[k], 0.5f);
    for (int k = 0; k < items; k++) y[first + k * threads] = sum[k];
}
