// class: kept results
/* lab
launches:
  - {kernel: keep, grid: "ceil_div(picks, 256)", block: 256, arguments: [index, picks]}
  - {kernel: gather, grid: picks, block: 64, arguments: [out, table, rows, width]}
*/
__device__ int kept[1 << 18];
__device__ bool full;
__global__ void keep(const int *index, int picks) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < picks && kept[i] == 0) kept[i] = index[i] + 1;
}
__global__ void gather(float *out, const float *table, int rows, int width) {
    int row = min(kept[blockIdx.x] - 1, rows - 1);
    for (int j = threadIdx.x; j < width; j += blockDim.x) out[blockIdx.x * width + j] = table[row * width + j];
}
