// The largest element of each segment and where it stands; one block a segment.
__global__ void argmax(float *value, int *place, const float *x, int length)
{
    __shared__ float best[threads];
    __shared__ int at[threads];
    const float *mine = x + (size_t)blockIdx.x * length;
    float most = -1e30f;
    int where = 0;
    for (int i = threadIdx.x; i < length; i += threads)
        if (mine[i] > most) most = mine[i], where = i;
    best[threadIdx.x] = most, at[threadIdx.x] = where;
    for (int half = threads / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half && best[threadIdx.x + half] > best[threadIdx.x])
            best[threadIdx.x] = best[threadIdx.x + half], at[threadIdx.x] = at[threadIdx.x + half];
    }
    if (threadIdx.x == 0) value[blockIdx.x] = best[0], place[blockIdx.x] = at[0];
}
