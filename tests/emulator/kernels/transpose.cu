// B = A transposed through a padded 32 x 33 tile; 32 x 8 threads.
extern "C" __global__ void transpose(int rows, int cols, const float *a, float *b) {
    __shared__ float tile[32][33];
    int col = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += 8)
        if (row + i < rows && col < cols) tile[threadIdx.y + i][threadIdx.x] = a[(row + i) * cols + col];
    __syncthreads();  // tile is filled
    int out_col = blockIdx.y * 32 + threadIdx.x, out_row = blockIdx.x * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += 8)
        if (out_row + i < cols && out_col < rows)
            b[(out_row + i) * rows + out_col] = tile[threadIdx.x][threadIdx.y + i];
}
