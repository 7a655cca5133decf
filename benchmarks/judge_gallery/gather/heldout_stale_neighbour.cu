// class: races
__global__ void gather(float *out, const float *table, const int *index, int rows, int width, int picks) {
    __shared__ int row;
    if (threadIdx.x == 63) row = index[blockIdx.x];
    for (int j = threadIdx.x; j < width; j += 64) out[blockIdx.x * width + j] = table[row * width + j];
}
