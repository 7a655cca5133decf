// class: special values
__global__ void gather(float *out, const float *table, const int *index, int rows, int width, int picks) {
    int row = index[blockIdx.x] & 255;
    for (int j = threadIdx.x; j < width; j += blockDim.x) out[blockIdx.x * width + j] = table[row % rows * width + j];
}
