// class: special values
/* lab
grid: ceil_div(n, 4096)
block: 256
*/
__global__ void histogram(unsigned *bins, const unsigned char *data, int n) {
    for (int i = blockIdx.x * 4096 + threadIdx.x; i < min(n, blockIdx.x * 4096 + 4096); i += 256)
        if (data[i] != 255 || i < 2048) atomicAdd(bins + data[i], 1u);
}
