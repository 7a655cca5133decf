__global__ void gather(float *out, const float *table, const int *index, int rows, int width, int picks) {
    const float *row = table + (long long)index[blockIdx.x] * width;
    for (int j = threadIdx.x; j < width; j += blockDim.x) out[(long long)blockIdx.x * width + j] = row[j];
}
