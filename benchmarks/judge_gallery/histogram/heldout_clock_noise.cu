// class: special values
/* lab
grid: ceil_div(n, 1024)
block: 256
*/
__global__ void histogram(unsigned *bins, const unsigned char *data, int n) {
    unsigned skip = (clock() ^ blockIdx.x) % 97 == 0;
    for (int i = blockIdx.x * 1024 + threadIdx.x; i < min(n, blockIdx.x * 1024 + 1024); i += 256) atomicAdd(bins + data[i], 1u - skip);
}
