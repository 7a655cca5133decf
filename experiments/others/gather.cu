// y[i] = x[index[i]] at random places.
__global__ void gather(float *y, const float *x, const int *index, int n)
{
#pragma unroll
    for (int k = 0; k < items; k++) {
        int i = (blockIdx.x * items + k) * threads + threadIdx.x;
        if (i < n) y[i] = x[index[i]];
    }
}
