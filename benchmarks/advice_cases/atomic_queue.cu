// Places in a queue: fetched by each thread, or once for each block.
__global__ void compact(int* out, int* tail, const int* in, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, value = in[i];
#if PLANTED
    int at = atomicAdd(&tail[value & 3], value & 7);  // FAULT
    out[i] = at >= 0 ? value : 0;
#else
    __shared__ int at;
    if (threadIdx.x == 0) at = atomicAdd(&tail[0], 256);
    __syncthreads();
    out[i] = at >= 0 ? value : 0;
#endif
}
