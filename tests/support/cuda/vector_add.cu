// Adds two vectors, as Kernel Tuner's first example does.
#ifndef block_size_x
#define block_size_x 256
#endif

__global__ void vector_add(float *c, const float *a, const float *b, int n) {
    int i = blockIdx.x * block_size_x + threadIdx.x;
    if (i < n) {
        c[i] = a[i] + b[i];
    }
}
