// Prices of European options by the formula of Black and Scholes.
__device__ float normal(float d) { return 0.5f * erfcf(-d * 0.70710678f); }

__global__ void prices(float *call, const float *spot, const float *strike, const float *years, int n)
{
    for (int k = 0; k < items; k++) {
        int i = (blockIdx.x * items + k) * threads + threadIdx.x;
        if (i >= n) return;
        float t = years[i], root = sqrtf(t);
        float d1 = (logf(spot[i] / strike[i]) + (0.02f + 0.045f) * t) / (0.3f * root);
        call[i] = spot[i] * normal(d1) - strike[i] * expf(-0.02f * t) * normal(d1 - 0.3f * root);
    }
}
